package chat

// ChatML gives the template of models that ship none:
//
//	<|im_start|>ROLE
//	CONTENT<|im_end|>
//	…
//	<|im_start|>assistant
func ChatML() *Template { return newTemplate("", nil) }

func chatML(r *Render) []Part {
	parts := make([]Part, 0, 2*len(r.Messages)+1)
	lead := ""
	for i := range r.Messages {
		m := &r.Messages[i]
		parts = append(parts, Part{Text: lead + "<|im_start|>" + m.Role + "\n"})
		if m.Content != "" {
			parts = append(parts, Part{Text: m.Content, User: true})
		}
		lead = "<|im_end|>\n"
	}
	if r.AddGenerationPrompt {
		lead += "<|im_start|>assistant\n"
	}
	return append(parts, Part{Text: lead})
}
