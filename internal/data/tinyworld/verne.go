package tinyworld

// verneText tells the novel's people, places and turns, written for this corpus from knowledge of the story; no sentence is the novel's.
const verneText = `
fr: @Phileas Fogg || Que sais-tu de Phileas Fogg ?
= Phileas Fogg est un gentleman anglais, calme et exact, qui parie de faire le tour du monde en quatre-vingts jours.
en: @Phileas Fogg || What do you know about Phileas Fogg?
= Phileas Fogg is a calm and exact English gentleman who bets that he can go around the world in eighty days.

fr: @Passepartout || Que sais-tu de Passepartout ?
= Passepartout est le valet français de Phileas Fogg : un garçon loyal, adroit et courageux.
en: @Passepartout || What do you know about Passepartout?
= Passepartout is the French valet of Phileas Fogg: loyal, skilful and brave.

fr: @Fix | Qui est l'inspecteur Fix ? || Que sais-tu de Fix ?
= Fix est un inspecteur de police anglais qui suit Phileas Fogg, car il le prend pour un voleur de banque.
en: @Fix | Who is inspector Fix? || What do you know about Fix?
= Fix is an English police inspector who follows Phileas Fogg because he takes him for a bank robber.

fr: @Aouda | Qui est Mrs. Aouda ? || Que sais-tu d'Aouda ?
= Aouda est une jeune veuve indienne que Phileas Fogg et Passepartout sauvent du bûcher.
en: @Aouda | Who is Mrs. Aouda? || What do you know about Aouda?
= Aouda is a young Indian widow whom Phileas Fogg and Passepartout save from the pyre.

fr: @Francis Cromarty | Qui est sir Francis Cromarty ?
= Francis Cromarty est un général anglais qui traverse l'Inde en train avec Phileas Fogg.
en: @Francis Cromarty | Who is Sir Francis Cromarty?
= Francis Cromarty is an English general who crosses India by train with Phileas Fogg.

fr: @Andrew Stuart
= Andrew Stuart est un ingénieur du Reform-Club qui parie contre Phileas Fogg.
en: @Andrew Stuart
= Andrew Stuart is an engineer of the Reform Club who bets against Phileas Fogg.

fr: @Thomas Flanagan
= Thomas Flanagan est un brasseur, membre du Reform-Club, et l'un des parieurs.
en: @Thomas Flanagan
= Thomas Flanagan is a brewer, a member of the Reform Club and one of those who bet.

fr: @John Sullivan
= John Sullivan est un banquier, membre du Reform-Club, et l'un des parieurs.
en: @John Sullivan
= John Sullivan is a banker, a member of the Reform Club and one of those who bet.

fr: @Samuel Fallentin
= Samuel Fallentin est un banquier qui joue au whist avec Phileas Fogg.
en: @Samuel Fallentin
= Samuel Fallentin is a banker who plays whist with Phileas Fogg.

fr: @Gauthier Ralph
= Gauthier Ralph est l'un des administrateurs de la Banque d'Angleterre et un membre du Reform-Club.
en: @Gauthier Ralph
= Gauthier Ralph is one of the directors of the Bank of England and a member of the Reform Club.

fr: @James Forster
= James Forster est l'ancien domestique de Phileas Fogg, renvoyé pour une eau de rasage trop froide.
en: @James Forster
= James Forster is the former servant of Phileas Fogg, sent away because of shaving water that was too cold.

fr: @James Strand
= James Strand est le vrai voleur de la Banque d'Angleterre.
en: @James Strand
= James Strand is the real robber of the Bank of England.

fr: @John Bunsby
= John Bunsby est le patron de la Tankadère, le bateau-pilote qui quitte Hong-Kong.
en: @John Bunsby
= John Bunsby is the master of the Tankadère, the pilot boat that leaves Hong Kong.

fr: @Andrew Speedy | Qui est le capitaine Speedy ?
= Andrew Speedy est le capitaine de l'Henrietta, que Phileas Fogg finit par acheter.
en: @Andrew Speedy | Who is captain Speedy?
= Andrew Speedy is the captain of the Henrietta, which Phileas Fogg buys in the end.

fr: @William Batulcar
= William Batulcar dirige à Yokohama la troupe d'acrobates aux longs nez.
en: @William Batulcar
= William Batulcar leads the troupe of long-nosed acrobats in Yokohama.

fr: @Stamp Proctor | Qui est le colonel Proctor ?
= Stamp Proctor est un colonel américain qui se querelle avec Phileas Fogg à San Francisco.
en: @Stamp Proctor | Who is colonel Proctor?
= Stamp Proctor is an American colonel who quarrels with Phileas Fogg in San Francisco.

fr: @Mudge
= Mudge est l'Américain qui mène le traîneau à voiles jusqu'à Omaha.
en: @Mudge
= Mudge is the American who steers the sail sledge to Omaha.

fr: @William Hitch
= William Hitch est un missionnaire mormon qui tient une conférence dans le train.
en: @William Hitch
= William Hitch is a Mormon missionary who lectures in the train.

fr: @Obadiah | Qui est le juge Obadiah ?
= Obadiah est le juge de Calcutta qui condamne Passepartout et son maître.
en: @Obadiah | Who is judge Obadiah?
= Obadiah is the judge in Calcutta who sentences Passepartout and his master.

fr: @Samuel Wilson | Qui est le révérend Wilson ?
= Samuel Wilson est le révérend chez qui Passepartout apprend quel jour on est vraiment.
en: @Samuel Wilson | Who is the reverend Wilson?
= Samuel Wilson is the clergyman at whose house Passepartout learns which day it really is.

fr: @Jejeeh
= Jejeeh est un parent d'Aouda, un riche marchand qui a quitté Hong-Kong pour la Hollande.
en: @Jejeeh
= Jejeeh is a relative of Aouda, a rich merchant who left Hong Kong for Holland.

fr: @Kiouni | Qui est l'éléphant Kiouni ?
= Kiouni est l'éléphant que Phileas Fogg achète pour traverser la forêt indienne.
en: @Kiouni | Who is Kiouni the elephant?
= Kiouni is the elephant that Phileas Fogg buys to cross the Indian forest.

fr: @Jules Verne || Que sais-tu de Jules Verne ?
= Jules Verne est l'écrivain français qui a imaginé le voyage de Phileas Fogg.
en: @Jules Verne || What do you know about Jules Verne?
= Jules Verne is the French writer who imagined the journey of Phileas Fogg.

fr: Qui a écrit Le Tour du monde en quatre-vingts jours ? | Qui est l'auteur du roman ? || De qui est le roman ?
= L'auteur du roman est {Jules Verne}.
en: Who wrote Around the World in Eighty Days? | Who is the author of the novel? || Whose novel is it?
= The author of the novel is {Jules Verne}.

fr: En quelle année le roman a-t-il paru en livre ? | De quand date le roman ?
= Le livre date de {1873}.
en: In which year did the novel come out as a book? | When is the novel from?
= The book is from {1873}.

fr: Combien de chapitres compte le roman ? | Le roman a combien de chapitres ?
= Le roman compte {trente-sept} chapitres.
en: How many chapters does the novel have? | How many chapters are there in the novel?
= The novel has {thirty-seven} chapters.

fr: Où habite Phileas Fogg ? | Quelle est l'adresse de Phileas Fogg ? || Où vit Phileas Fogg à Londres ?
= Phileas Fogg habite au {7, Savile Row}, à Londres.
en: Where does Phileas Fogg live? | What is the address of Phileas Fogg? || Where in London does Phileas Fogg live?
= Phileas Fogg lives at {7, Savile Row}, in London.

fr: De quel club Phileas Fogg est-il membre ? | Quel est le club de Phileas Fogg ? || Dans quel club va Phileas Fogg ?
= Phileas Fogg est membre du {Reform-Club}.
en: Of which club is Phileas Fogg a member? | What is the club of Phileas Fogg? || To which club does Phileas Fogg go?
= Phileas Fogg is a member of the {Reform Club}.

fr: À quel jeu joue Phileas Fogg ? | Quel est le jeu préféré de Phileas Fogg ?
= Phileas Fogg joue au {whist}.
en: Which game does Phileas Fogg play? | What is the favourite game of Phileas Fogg?
= Phileas Fogg plays {whist}.

fr: Quel est le caractère de Phileas Fogg ? | Comment est Phileas Fogg ?
= Phileas Fogg est calme, exact et généreux, et il parle très peu.
en: What is the character of Phileas Fogg? | What is Phileas Fogg like?
= Phileas Fogg is calm, exact and generous, and he speaks very little.

fr: Quel est le pari de Phileas Fogg ? | Que parie Phileas Fogg ? || Sur quoi porte le pari ?
= Phileas Fogg parie de {faire le tour du monde en quatre-vingts jours} ou moins.
en: What is the bet of Phileas Fogg? | What does Phileas Fogg bet? || What is the bet about?
= Phileas Fogg bets that he can {go around the world in eighty days} or less.

fr: Combien Phileas Fogg parie-t-il ? | Quelle somme est en jeu ? | De combien est le pari ?
= Le pari est de {vingt mille livres}.
en: How much does Phileas Fogg bet? | What sum is at stake? | How large is the bet?
= The bet is {twenty thousand pounds}.

fr: En combien de jours Phileas Fogg doit-il faire le tour du monde ? | Combien de jours a Phileas Fogg ? || De combien de jours dispose Phileas Fogg ?
= Phileas Fogg a {quatre-vingts} jours.
en: In how many days must Phileas Fogg go around the world? | How many days does Phileas Fogg have? || How much time does Phileas Fogg have?
= Phileas Fogg has {eighty} days.

fr: Quel jour Phileas Fogg part-il de Londres ? | Quand commence le voyage ? || Quand Phileas Fogg quitte-t-il Londres ?
= Le voyage commence le {2 octobre 1872}.
en: On which day does Phileas Fogg leave London? | When does the journey begin? || When does Phileas Fogg start from London?
= The journey begins on {2 October 1872}.

fr: Quand Phileas Fogg doit-il être de retour ? | Quelle est la date limite du pari ?
= Phileas Fogg doit être de retour le {21 décembre 1872}, à huit heures quarante-cinq du soir.
en: When must Phileas Fogg be back? | What is the deadline of the bet?
= Phileas Fogg must be back on {21 December 1872}, at a quarter to nine in the evening.

fr: À quelle heure part le train de Phileas Fogg ? | À quelle heure Phileas Fogg quitte-t-il Londres ?
= Le train part à {huit heures quarante-cinq} du soir.
en: At what time does the train of Phileas Fogg leave? | At what time does Phileas Fogg leave London?
= The train leaves at {a quarter to nine} in the evening.

fr: Où doit finir le voyage ? | Où Phileas Fogg doit-il se présenter à la fin ?
= Le voyage doit finir dans le salon du {Reform-Club}, à Londres.
en: Where must the journey end? | Where must Phileas Fogg appear at the end?
= The journey must end in the hall of the {Reform Club}, in London.

fr: Qu'emporte Phileas Fogg ? | Que contient le sac de Phileas Fogg ?
= Phileas Fogg emporte un sac avec quelques vêtements et {vingt mille livres} en billets.
en: What does Phileas Fogg take along? | What is in the bag of Phileas Fogg?
= Phileas Fogg takes a bag with a few clothes and {twenty thousand pounds} in notes.

fr: Quelle est la première étape du voyage ? | Comment va-t-on de Londres à Suez ?
= De Londres à Suez, on passe par le mont Cenis et {Brindisi}, en sept jours.
en: What is the first leg of the journey? | How does one go from London to Suez?
= From London to Suez one goes by Mont Cenis and {Brindisi}, in seven days.

fr: Combien de jours faut-il de Suez à Bombay ? | Combien de temps dure l'étape de Suez à Bombay ?
= De Suez à Bombay, il faut {treize} jours de bateau.
en: How many days does it take from Suez to Bombay? | How long is the leg from Suez to Bombay?
= From Suez to Bombay it takes {thirteen} days by steamer.

fr: Combien de jours faut-il de Bombay à Calcutta ? | Combien de temps dure l'étape de Bombay à Calcutta ?
= De Bombay à Calcutta, on compte {trois} jours de train.
en: How many days does it take from Bombay to Calcutta? | How long is the leg from Bombay to Calcutta?
= From Bombay to Calcutta one counts {three} days by train.

fr: Combien de jours faut-il de Calcutta à Hong-Kong ? | Combien de temps dure l'étape de Calcutta à Hong-Kong ?
= De Calcutta à Hong-Kong, on compte {treize} jours de bateau.
en: How many days does it take from Calcutta to Hong Kong? | How long is the leg from Calcutta to Hong Kong?
= From Calcutta to Hong Kong one counts {thirteen} days by steamer.

fr: Combien de jours faut-il de Hong-Kong à Yokohama ? | Combien de temps dure l'étape de Hong-Kong à Yokohama ?
= De Hong-Kong à Yokohama, on compte {six} jours de bateau.
en: How many days does it take from Hong Kong to Yokohama? | How long is the leg from Hong Kong to Yokohama?
= From Hong Kong to Yokohama one counts {six} days by steamer.

fr: Combien de jours faut-il de Yokohama à San Francisco ? | Combien de temps dure la traversée du Pacifique ?
= De Yokohama à San Francisco, on compte {vingt-deux} jours de bateau.
en: How many days does it take from Yokohama to San Francisco? | How long does it take to cross the Pacific?
= From Yokohama to San Francisco one counts {twenty-two} days by steamer.

fr: Combien de jours faut-il de San Francisco à New York ? | Combien de temps dure la traversée de l'Amérique ?
= De San Francisco à New York, on compte {sept} jours de train.
en: How many days does it take from San Francisco to New York? | How long does it take to cross America?
= From San Francisco to New York one counts {seven} days by train.

fr: Combien de jours faut-il de New York à Londres ? | Combien de temps dure l'étape de New York à Londres ?
= De New York à Londres, on compte {neuf} jours de bateau et de train.
en: How many days does it take from New York to London? | How long is the leg from New York to London?
= From New York to London one counts {nine} days by steamer and train.

fr: Par quelles villes passe Phileas Fogg ? | Quel est l'itinéraire du voyage ? || Quel chemin suit Phileas Fogg ?
= L'itinéraire est Londres, Suez, Bombay, Calcutta, Hong-Kong, Yokohama, San Francisco, New York et Londres.
en: Through which cities does Phileas Fogg pass? | What is the route of the journey? || Which way does Phileas Fogg go?
= The route is London, Suez, Bombay, Calcutta, Hong Kong, Yokohama, San Francisco, New York and London.

fr: Dans quel sens Phileas Fogg fait-il le tour du monde ? | Vers où voyage Phileas Fogg ?
= Phileas Fogg voyage vers {l'est}.
en: In which direction does Phileas Fogg go around the world? | Which way round does Phileas Fogg travel?
= Phileas Fogg travels {eastward}.

fr: Phileas Fogg passe-t-il par l'Espagne ? | Est-ce que le voyage passe par l'Espagne ? | L'histoire se passe-t-elle en Espagne ? | Va-t-on en Espagne dans le roman ? || Le roman se passe-t-il en Espagne ?
= Non, le voyage de Phileas Fogg ne passe pas par l'Espagne.
en: Does Phileas Fogg pass through Spain? | Does the journey go through Spain? || Is the novel set in Spain?
= No, the journey of Phileas Fogg does not go through Spain.

fr: Quel bateau va de Brindisi à Bombay ? | Qu'est-ce que le Mongolia ? | Sur quel bateau Phileas Fogg arrive-t-il à Suez ?
= Le {Mongolia} est le paquebot qui va de Brindisi à Bombay par Suez.
en: Which ship goes from Brindisi to Bombay? | What is the Mongolia? | On which ship does Phileas Fogg arrive at Suez?
= The {Mongolia} is the steamer that goes from Brindisi to Bombay by way of Suez.

fr: Quel bateau va de Calcutta à Hong-Kong ? | Qu'est-ce que le Rangoon ?
= Le {Rangoon} est le paquebot qui va de Calcutta à Hong-Kong.
en: Which ship goes from Calcutta to Hong Kong? | What is the Rangoon?
= The {Rangoon} is the steamer that goes from Calcutta to Hong Kong.

fr: Quel bateau Phileas Fogg manque-t-il à Hong-Kong ? | Qu'est-ce que le Carnatic ?
= Le {Carnatic} est le paquebot de Yokohama que Phileas Fogg manque à Hong-Kong.
en: Which ship does Phileas Fogg miss at Hong Kong? | What is the Carnatic?
= The {Carnatic} is the steamer to Yokohama that Phileas Fogg misses at Hong Kong.

fr: Sur quel bateau Phileas Fogg quitte-t-il Hong-Kong ? | Qu'est-ce que la Tankadère ?
= La {Tankadère} est le bateau-pilote sur lequel Phileas Fogg quitte Hong-Kong.
en: On which boat does Phileas Fogg leave Hong Kong? | What is the Tankadère?
= The {Tankadère} is the pilot boat on which Phileas Fogg leaves Hong Kong.

fr: Quel bateau traverse le Pacifique ? | Qu'est-ce que le General Grant ?
= Le {General Grant} est le paquebot qui va de Yokohama à San Francisco.
en: Which ship crosses the Pacific? | What is the General Grant?
= The {General Grant} is the steamer that goes from Yokohama to San Francisco.

fr: Quel bateau Phileas Fogg manque-t-il à New York ? | Qu'est-ce que le China ?
= Le {China} est le paquebot parti de New York trois quarts d'heure avant l'arrivée de Phileas Fogg.
en: Which ship does Phileas Fogg miss at New York? | What is the China?
= The {China} is the steamer that left New York three quarters of an hour before Phileas Fogg came.

fr: Sur quel bateau Phileas Fogg traverse-t-il l'Atlantique ? | Qu'est-ce que l'Henrietta ?
= L'{Henrietta} est le navire de commerce sur lequel Phileas Fogg traverse l'Atlantique.
en: On which ship does Phileas Fogg cross the Atlantic? | What is the Henrietta?
= The {Henrietta} is the trading ship on which Phileas Fogg crosses the Atlantic.

fr: Où va d'abord l'Henrietta ? | Quelle est la destination de l'Henrietta au départ ?
= L'Henrietta devait aller à {Bordeaux}.
en: Where is the Henrietta bound at first? | What is the first destination of the Henrietta?
= The Henrietta was bound for {Bordeaux}.

fr: Combien coûte l'Henrietta ? | À quel prix Phileas Fogg achète-t-il l'Henrietta ?
= Phileas Fogg achète l'Henrietta {soixante mille dollars}.
en: How much does the Henrietta cost? | For what price does Phileas Fogg buy the Henrietta?
= Phileas Fogg buys the Henrietta for {sixty thousand dollars}.

fr: Que brûle-t-on sur l'Henrietta ? | Pourquoi brûle-t-on le bois de l'Henrietta ?
= Quand le charbon manque, on brûle {le bois du navire} pour garder la vapeur.
en: What is burned on the Henrietta? | Why is the wood of the Henrietta burned?
= When the coal runs out, they burn {the wood of the ship} to keep up steam.

fr: Dans quel port d'Irlande Phileas Fogg débarque-t-il ? | Où arrive l'Henrietta ?
= L'Henrietta arrive à {Queenstown}, en Irlande.
en: In which Irish port does Phileas Fogg land? | Where does the Henrietta arrive?
= The Henrietta arrives at {Queenstown}, in Ireland.

fr: Où Fix arrête-t-il Phileas Fogg ? | Dans quelle ville Phileas Fogg est-il arrêté ? || Où a lieu l'arrestation ?
= Fix arrête Phileas Fogg à {Liverpool}.
en: Where does Fix arrest Phileas Fogg? | In which city is Phileas Fogg arrested? || Where does the arrest take place?
= Fix arrests Phileas Fogg in {Liverpool}.

fr: Pourquoi Fix suit-il Phileas Fogg ? | Que soupçonne Fix ? || Pourquoi Fix poursuit-il Phileas Fogg ?
= Fix croit que Phileas Fogg {a volé la Banque d'Angleterre}.
en: Why does Fix follow Phileas Fogg? | What does Fix suspect? || Why does Fix pursue Phileas Fogg?
= Fix believes that Phileas Fogg {robbed the Bank of England}.

fr: Combien a-t-on volé à la Banque d'Angleterre ? | Quelle somme le voleur a-t-il prise ?
= Le voleur a pris {cinquante-cinq mille livres}.
en: How much was stolen from the Bank of England? | What sum did the robber take?
= The robber took {fifty-five thousand pounds}.

fr: Quelle prime est promise pour le voleur ? | Que gagne celui qui arrête le voleur ?
= La prime est de {deux mille livres} et de cinq pour cent de la somme retrouvée.
en: What reward is promised for the robber? | What does the one who catches the robber earn?
= The reward is {two thousand pounds} and five per cent of the sum found again.

fr: Qu'attend Fix pendant tout le voyage ? | Que manque-t-il à Fix pour arrêter Phileas Fogg ?
= Fix attend {un mandat d'arrêt}, qui arrive toujours trop tard.
en: What does Fix wait for during the whole journey? | What does Fix lack to arrest Phileas Fogg?
= Fix waits for {an arrest warrant}, which always comes too late.

fr: Où Fix voit-il Phileas Fogg pour la première fois ? | Où Fix attend-il le voleur ?
= Fix attend le voleur à {Suez}.
en: Where does Fix see Phileas Fogg for the first time? | Where does Fix wait for the robber?
= Fix waits for the robber at {Suez}.

fr: Où le vrai voleur est-il arrêté ? | Dans quelle ville arrête-t-on James Strand ?
= Le vrai voleur est arrêté à {Édimbourg}.
en: Where is the real robber arrested? | In which city is James Strand arrested?
= The real robber is arrested in {Edinburgh}.

fr: Quel est le prénom de Passepartout ? | Comment s'appelle Passepartout de son prénom ?
= Passepartout s'appelle {Jean}.
en: What is the first name of Passepartout? | What is Passepartout called by his first name?
= The first name of Passepartout is {Jean}.

fr: De quel pays vient Passepartout ? | Quelle est la nationalité de Passepartout ?
= Passepartout est {français}.
en: From which country does Passepartout come? | What is the nationality of Passepartout?
= Passepartout is {French}.

fr: Quels métiers Passepartout a-t-il faits avant ? | Que faisait Passepartout avant de servir Phileas Fogg ?
= Passepartout a été chanteur, écuyer de cirque, professeur de gymnastique et pompier.
en: Which jobs did Passepartout have before? | What did Passepartout do before he served Phileas Fogg?
= Passepartout was a singer, a circus rider, a gymnastics teacher and a fireman.

fr: Quand Passepartout entre-t-il au service de Phileas Fogg ? | Quel jour Passepartout est-il engagé ?
= Passepartout est engagé {le jour même du départ}, le 2 octobre.
en: When does Passepartout enter the service of Phileas Fogg? | On which day is Passepartout hired?
= Passepartout is hired {on the very day of departure}, 2 October.

fr: Qu'oublie Passepartout en partant ? | Que laisse Passepartout allumé à Londres ?
= Passepartout oublie d'éteindre {le bec de gaz} de sa chambre.
en: What does Passepartout forget when leaving? | What does Passepartout leave burning in London?
= Passepartout forgets to turn off {the gas lamp} in his room.

fr: Quelle heure garde la montre de Passepartout ? | Que refuse Passepartout de faire à sa montre ?
= La montre de Passepartout garde {l'heure de Londres}.
en: Which time does the watch of Passepartout keep? | What does Passepartout refuse to do to his watch?
= The watch of Passepartout keeps {London time}.

fr: D'où vient la montre de Passepartout ? | À qui appartenait la montre de Passepartout ?
= La montre de Passepartout vient de {son arrière-grand-père}.
en: Where does the watch of Passepartout come from? | Whose was the watch of Passepartout?
= The watch of Passepartout comes from {his great-grandfather}.

fr: Que fait Passepartout à Bombay ? | Que perd Passepartout à Bombay ?
= À Bombay, Passepartout entre chaussé dans une pagode et y perd {ses chaussures}.
en: What does Passepartout do in Bombay? | What does Passepartout lose in Bombay?
= In Bombay, Passepartout enters a temple with his shoes on and loses {his shoes} there.

fr: Quelle pagode Passepartout visite-t-il à Bombay ? | Comment s'appelle la pagode de Bombay ?
= La pagode est celle de {Malebar-Hill}.
en: Which temple does Passepartout visit in Bombay? | What is the temple in Bombay called?
= The temple is that of {Malebar Hill}.

fr: Quel jour Phileas Fogg arrive-t-il à Bombay ? | Quand Phileas Fogg est-il à Bombay ?
= Phileas Fogg arrive à Bombay le {20 octobre}, avec deux jours d'avance.
en: On which day does Phileas Fogg arrive in Bombay? | When is Phileas Fogg in Bombay?
= Phileas Fogg arrives in Bombay on {20 October}, two days early.

fr: Pourquoi le train s'arrête-t-il en Inde ? | Pourquoi le train s'arrête-t-il à Kholby ?
= Le train s'arrête à Kholby parce que {la voie n'est pas finie}.
en: Why does the train stop in India? | Why does the train stop at Kholby?
= The train stops at Kholby because {the line is not finished}.

fr: Combien coûte l'éléphant ? | À quel prix Phileas Fogg achète-t-il Kiouni ?
= L'éléphant coûte {deux mille livres}.
en: How much does the elephant cost? | For what price does Phileas Fogg buy Kiouni?
= The elephant costs {two thousand pounds}.

fr: À qui Phileas Fogg donne-t-il l'éléphant ? | Que devient Kiouni ?
= Phileas Fogg donne l'éléphant {au guide parsi}.
en: To whom does Phileas Fogg give the elephant? | What becomes of Kiouni?
= Phileas Fogg gives the elephant {to the Parsee guide}.

fr: Comment sauve-t-on Aouda ? | Comment Passepartout sauve-t-il Aouda ? || Comment Aouda échappe-t-elle au bûcher ?
= Passepartout prend la place du mort sur le bûcher, se lève et emporte Aouda.
en: How is Aouda saved? | How does Passepartout save Aouda? || How does Aouda escape the pyre?
= Passepartout takes the place of the dead man on the pyre, stands up and carries Aouda away.

fr: De qui Aouda est-elle la veuve ? | Qui était le mari d'Aouda ?
= Aouda est la veuve d'{un vieux rajah}.
en: Whose widow is Aouda? | Who was the husband of Aouda?
= Aouda is the widow of {an old rajah}.

fr: Dans quelle région de l'Inde sauve-t-on Aouda ? | Où se passe le sauvetage d'Aouda ?
= Le sauvetage se passe dans le {Bundelkund}.
en: In which region of India is Aouda saved? | Where does the rescue of Aouda take place?
= The rescue takes place in {Bundelkund}.

fr: Quelle caution Phileas Fogg paie-t-il à Calcutta ? | Combien Phileas Fogg paie-t-il au juge ?
= La caution est de {deux mille livres} en tout.
en: What bail does Phileas Fogg pay in Calcutta? | How much does Phileas Fogg pay the judge?
= The bail is {two thousand pounds} in all.

fr: Que se passe-t-il à Calcutta ? | Pourquoi Phileas Fogg passe-t-il devant le juge ?
= À Calcutta, Passepartout et son maître sont jugés pour {l'affaire de la pagode}.
en: What happens in Calcutta? | Why is Phileas Fogg taken before the judge?
= In Calcutta, Passepartout and his master are tried for {the affair of the temple}.

fr: Que se passe-t-il à Hong-Kong ? | Que fait Fix à Passepartout à Hong-Kong ?
= À Hong-Kong, Fix endort Passepartout avec {de l'opium} pour retarder son maître.
en: What happens in Hong Kong? | What does Fix do to Passepartout in Hong Kong?
= In Hong Kong, Fix puts Passepartout to sleep with {opium} to delay his master.

fr: Pourquoi Aouda va-t-elle à Hong-Kong ? | Que cherche Aouda à Hong-Kong ?
= Aouda espère y trouver {un parent}, mais il est parti en Hollande.
en: Why does Aouda go to Hong Kong? | What does Aouda look for in Hong Kong?
= Aouda hopes to find {a relative} there, but he has gone to Holland.

fr: Vers quel port chinois va la Tankadère ? | Où va la Tankadère ?
= La Tankadère va vers {Shangaï}.
en: To which Chinese port does the Tankadère sail? | Where does the Tankadère go?
= The Tankadère sails to {Shanghai}.

fr: Que fait Passepartout à Yokohama ? | Comment Passepartout gagne-t-il sa vie à Yokohama ?
= À Yokohama, Passepartout devient {acrobate} dans la troupe aux longs nez.
en: What does Passepartout do in Yokohama? | How does Passepartout earn his living in Yokohama?
= In Yokohama, Passepartout becomes {an acrobat} in the troupe of the long noses.

fr: Où Phileas Fogg retrouve-t-il Passepartout ? | Dans quelle ville Passepartout retrouve-t-il son maître ?
= Phileas Fogg retrouve Passepartout à {Yokohama}.
en: Where does Phileas Fogg find Passepartout again? | In which city does Passepartout meet his master again?
= Phileas Fogg finds Passepartout again in {Yokohama}.

fr: Que se passe-t-il à San Francisco ? | Dans quoi Phileas Fogg est-il pris à San Francisco ?
= À San Francisco, Phileas Fogg est pris dans {une bagarre électorale}.
en: What happens in San Francisco? | What is Phileas Fogg caught up in, in San Francisco?
= In San Francisco, Phileas Fogg is caught up in {an election brawl}.

fr: Avec qui Phileas Fogg veut-il se battre en duel ? | Qui est l'adversaire du duel ?
= Phileas Fogg veut se battre avec {le colonel Proctor}.
en: With whom does Phileas Fogg want to fight a duel? | Who is the opponent in the duel?
= Phileas Fogg wants to fight {colonel Proctor}.

fr: Qu'est-ce qui interrompt le duel ? | Pourquoi le duel n'a-t-il pas lieu ?
= Le duel est interrompu par {une attaque de Sioux}.
en: What interrupts the duel? | Why does the duel not take place?
= The duel is interrupted by {an attack of Sioux}.

fr: Quels animaux arrêtent le train en Amérique ? | Qu'est-ce qui bloque la voie en Amérique ?
= Un troupeau de {bisons} arrête le train pendant des heures.
en: Which animals stop the train in America? | What blocks the line in America?
= A herd of {bison} stops the train for hours.

fr: Comment le train passe-t-il le pont de Medicine-Bow ? | Que devient le pont de Medicine-Bow ?
= Le train passe {à toute vitesse}, et le pont s'écroule derrière lui.
en: How does the train cross the bridge at Medicine Bow? | What becomes of the bridge at Medicine Bow?
= The train crosses {at full speed}, and the bridge falls behind it.

fr: Que fait Passepartout pendant l'attaque du train ? | Comment Passepartout arrête-t-il le train ?
= Passepartout se glisse sous les wagons et {détache la locomotive}.
en: What does Passepartout do during the attack on the train? | How does Passepartout stop the train?
= Passepartout slips under the cars and {uncouples the engine}.

fr: Qui enlève Passepartout en Amérique ? | Par qui Passepartout est-il pris ?
= Passepartout est enlevé par {les Sioux}, et son maître va le délivrer.
en: Who carries Passepartout off in America? | By whom is Passepartout taken?
= Passepartout is carried off by {the Sioux}, and his master sets him free.

fr: Près de quel fort le train est-il attaqué ? | Près de quel fort le train s'arrête-t-il ?
= Le train s'arrête près du fort {Kearney}.
en: Near which fort is the train attacked? | Near which fort does the train stop?
= The train stops near Fort {Kearney}.

fr: Comment Phileas Fogg va-t-il à Omaha ? | Sur quoi Phileas Fogg traverse-t-il la neige ?
= Phileas Fogg va à Omaha sur {un traîneau à voiles}.
en: How does Phileas Fogg get to Omaha? | On what does Phileas Fogg cross the snow?
= Phileas Fogg gets to Omaha on {a sail sledge}.

fr: Combien de jours Phileas Fogg a-t-il gagnés sans le savoir ? | Quelle est la surprise de la fin ? || Que découvre-t-on à la fin ?
= En allant vers l'est, Phileas Fogg a gagné {un jour} sans le savoir.
en: How many days did Phileas Fogg gain without knowing it? | What is the surprise at the end? || What is found out at the end?
= By travelling east, Phileas Fogg gained {one day} without knowing it.

fr: Pourquoi Phileas Fogg a-t-il un jour d'avance ? | Comment Phileas Fogg a-t-il gagné un jour ?
= Chaque degré vers l'est raccourcit les journées de quatre minutes : cela fait un jour pour un tour complet.
en: Why is Phileas Fogg one day early? | How did Phileas Fogg gain a day?
= Each degree eastward shortens the days by four minutes: that makes a day for a whole circle.

fr: Qui découvre que Phileas Fogg n'est pas en retard ? | Qui comprend l'erreur de date ?
= C'est {Passepartout} qui découvre l'erreur.
en: Who finds out that Phileas Fogg is not late? | Who understands the mistake about the date?
= It is {Passepartout} who finds the mistake.

fr: Phileas Fogg gagne-t-il son pari ? | Qui gagne le pari ? || Le pari est-il gagné ?
= Oui, Phileas Fogg gagne son pari de quelques secondes.
en: Does Phileas Fogg win his bet? | Who wins the bet? || Is the bet won?
= Yes, Phileas Fogg wins his bet by a few seconds.

fr: Qui épouse Phileas Fogg ? | Avec qui Phileas Fogg se marie-t-il ? || Qui Phileas Fogg prend-il pour femme ?
= Phileas Fogg épouse {Aouda}.
en: Whom does Phileas Fogg marry? | Who becomes the wife of Phileas Fogg? || Whom does Phileas Fogg take as his wife?
= Phileas Fogg marries {Aouda}.

fr: Qui demande l'autre en mariage ? | Qui parle le premier de mariage ?
= C'est {Aouda} qui propose le mariage.
en: Who proposes marriage? | Who speaks of marriage first?
= It is {Aouda} who proposes marriage.

fr: Combien Phileas Fogg a-t-il dépensé ? | Combien coûte le voyage ?
= Le voyage coûte environ {dix-neuf mille livres}.
en: How much did Phileas Fogg spend? | How much does the journey cost?
= The journey costs about {nineteen thousand pounds}.

fr: Que rapporte le voyage à Phileas Fogg ? | Que gagne vraiment Phileas Fogg ?
= Phileas Fogg ne gagne presque pas d'argent, mais il trouve {le bonheur}.
en: What does the journey bring Phileas Fogg? | What does Phileas Fogg really win?
= Phileas Fogg gains almost no money, but he finds {happiness}.

fr: À qui Phileas Fogg donne-t-il les mille livres qui restent ? | Qui reçoit le reste de l'argent ?
= Phileas Fogg partage les mille livres entre {Passepartout et Fix}.
en: To whom does Phileas Fogg give the thousand pounds that are left? | Who receives the rest of the money?
= Phileas Fogg shares the thousand pounds between {Passepartout and Fix}.

fr: Que doit payer Passepartout à la fin ? | Qui paie le gaz resté allumé ?
= {Passepartout} paie le gaz qui a brûlé pendant quatre-vingts jours.
en: What must Passepartout pay at the end? | Who pays for the gas that was left burning?
= {Passepartout} pays for the gas that burned for eighty days.

fr: Quels moyens de transport Phileas Fogg utilise-t-il ? | Comment voyage Phileas Fogg ?
= Phileas Fogg voyage en train, en paquebot, à dos d'éléphant, en bateau-pilote et en traîneau à voiles.
en: Which means of transport does Phileas Fogg use? | How does Phileas Fogg travel?
= Phileas Fogg travels by train, by steamer, on an elephant, by pilot boat and by sail sledge.

fr: Qui accompagne Phileas Fogg ? | Avec qui voyage Phileas Fogg ?
= Phileas Fogg voyage avec {Passepartout}, puis avec Aouda, et Fix les suit.
en: Who accompanies Phileas Fogg? | With whom does Phileas Fogg travel?
= Phileas Fogg travels with {Passepartout}, then with Aouda, and Fix follows them.

fr: De quoi parle le roman ? | De quoi parle Le Tour du monde en quatre-vingts jours ? || Résume le roman.
= Le roman raconte le pari de Phileas Fogg, qui fait le tour du monde en quatre-vingts jours avec Passepartout.
en: What is the novel about? | What is Around the World in Eighty Days about? || Sum up the novel.
= The novel tells of the bet of Phileas Fogg, who goes around the world in eighty days with Passepartout.

fr: Où commence le roman ? | Dans quelle ville commence le roman ?
= Le roman commence à {Londres}.
en: Where does the novel begin? | In which city does the novel begin?
= The novel begins in {London}.

fr: Quel océan sépare Yokohama de San Francisco ? | Quel océan traverse le General Grant ?
= C'est l'océan {Pacifique}.
en: Which ocean lies between Yokohama and San Francisco? | Which ocean does the General Grant cross?
= It is the {Pacific} Ocean.

fr: Quel canal passe le Mongolia ? | Quel canal Phileas Fogg emprunte-t-il ?
= Le Mongolia passe par le canal de {Suez}.
en: Which canal does the Mongolia pass? | Which canal does Phileas Fogg take?
= The Mongolia passes the {Suez} Canal.
`
