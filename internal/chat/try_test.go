package chat
import ("testing";"encoding/json";"os";"time";"fmt";"sort")
func TestTry(t *testing.T){
 var g struct{ Convs map[string]json.RawMessage; Renders map[string]map[string]struct{Text *string; Error *string}; Bos_token, Eos_token, Now string }
 b,_:=os.ReadFile("/work/shared/data/goldens/chat_template_goldens.json")
 if err:=json.Unmarshal(b,&g); err!=nil { t.Fatal(err)}
 now,_:=time.Parse("2006-01-02T15:04:05",g.Now)
 names:=[]string{}
 for n:=range g.Renders { names=append(names,n)}
 sort.Strings(names)
 ok,n:=0,0
 for _,name:=range names {
  src,_:=os.ReadFile("/work/shared/data/templates/"+name)
  tm,err:=Compile(string(src))
  for cn, want := range g.Renders[name] {
   n++
   if err!=nil { if want.Error!=nil {ok++} else {fmt.Println(name,"COMPILE",err)}; continue }
   v,e:=ParseJSON(g.Convs[cn]); if e!=nil {t.Fatal(e)}
   r:=Render{BOS:g.Bos_token,EOS:g.Eos_token,Now:now}
   for _,f:=range v.(Object) { switch f.Key {
    case "add_generation_prompt": r.AddGenerationPrompt=f.Value.(bool)
    case "tools": r.Tools=f.Value.([]any)
    case "messages": for _,m:=range f.Value.([]any) { var x Message; for _,q:=range m.(Object) { switch q.Key { case "role":x.Role=q.Value.(string); case "content": x.Content,_=q.Value.(string); case "name": x.Name=q.Value.(string); case "tool_call_id": x.ToolCallID=q.Value.(string); case "tool_calls": x.ToolCalls=q.Value.([]any) } }; r.Messages=append(r.Messages,x) } } }
   out,e:=tm.run(&r,func(s string)string{return s})
   switch {
   case want.Error!=nil && e!=nil: ok++
   case want.Error!=nil: fmt.Println(name,cn,"want error",*want.Error,"got",out[:min(len(out),100)])
   case e!=nil: fmt.Println(name,cn,"ERR",e)
   case out==*want.Text: ok++
   default:
     i:=0; for i<len(out)&&i<len(*want.Text)&&out[i]==(*want.Text)[i] {i++}
     fmt.Printf("%s %s DIFF at %d\n   got  %q\n   want %q\n",name,cn,i,out[max(0,i-30):min(len(out),i+60)],(*want.Text)[max(0,i-30):min(len(*want.Text),i+60)])
   }
  }
 }
 fmt.Println(ok,"/",n)
}
