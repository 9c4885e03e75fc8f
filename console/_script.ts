/**
 * Script of all pages: times in the reader's zone and ages that go on, refreshing and its pause, which lasts for a tab,
 * the charts' numbers, search in a payload.
 *
 * A refresh changes only the nodes that differ. So focus, scroll positions, a selection, and what the reader has
 * opened or typed stay, also when an event ends. Nothing is changed while a button of the mouse is down on it: it
 * would come up over something else, and nothing would be clicked. An event that has ended is looked at less often, in case
 * somebody replays or purges it.
 */
export const SCRIPT = `(()=>{"use strict";
const $=(s,r=document)=>[...r.querySelectorAll(s)];
const full={year:"numeric",month:"short",day:"2-digit",hour:"2-digit",minute:"2-digit",second:"2-digit",hourCycle:"h23"};
const forms={minute:{hour:"2-digit",minute:"2-digit",hourCycle:"h23"},
short:{month:"short",day:"2-digit",hour:"2-digit",minute:"2-digit",second:"2-digit",hourCycle:"h23"},
full:{...full,fractionalSecondDigits:3,timeZoneName:"short"}};
for(const k in forms)forms[k]=new Intl.DateTimeFormat("en",forms[k]);
const during=(at,f)=>"deliveries?from="+at+"&before="+(at+ +f.dataset.slot);
const since=d=>{const s=(Date.now()-d)/1e3,a=Math.floor(Math.abs(s)),all=[[a/86400,"d"],[a/3600%24,"h"],[a/60%60,"min"],[a%60,"s"]]
.map(([n,u])=>[Math.floor(n),u]),i=all.findIndex(([n])=>n);if(i<0)return s<0?"now":"just now";
const t=all.slice(i,i+2).filter(([n])=>n).map(e=>e.join(" ")).join(" ");return s<0?"in "+t:t+" ago"};
const localize=r=>{$("time[data-form]",r).forEach(t=>{const d=new Date(t.dateTime),f=forms[t.dataset.form];
t.title=(f?"":forms.full.format(d)+", ")+t.dateTime.replace("T"," ").replace("Z"," UTC");t.textContent=f?f.format(d):since(d)});
$("[data-at]",r).forEach(t=>{t.title=t.textContent+" UTC";const a=document.createElement("a"),at=t.dataset.at*6e4;
a.textContent=forms.minute.format(at);a.href=during(at,r.querySelector(".chart"));t.replaceChildren(a)})};
localize(document);
setInterval(()=>$("time[data-form=ago]").forEach(t=>t.textContent=since(new Date(t.dateTime))),15e3);
const zoned=v=>{const d=new Date(v);return new Date(d-d.getTimezoneOffset()*6e4).toISOString().slice(0,16)};
$("input[data-utc]").forEach(i=>{if(i.value)i.defaultValue=zoned(i.value+"Z");
$("[data-zone]",i.parentNode).forEach(z=>z.textContent="")});
$("form.filter").forEach(f=>{addEventListener("pageshow",e=>e.persisted&&f.reset());
f.addEventListener("formdata",({formData:d})=>$("input,select",f).forEach(i=>{
if(!i.value)d.delete(i.name);
else if(i.dataset.utc!==undefined)d.set(i.name,new Date(i.value).toISOString().slice(0,16))}))});
$("textarea[data-max]").forEach(t=>t.addEventListener("input",()=>t.setCustomValidity(
(""+new URLSearchParams([["",t.value.replace(/\\n/g,"\\r\\n")]])).length>t.dataset.max?"This text is too long to be sent from here.":"")));
let spot;const read=e=>{const o=e.target.closest&&e.target.closest(".chart");
if(spot&&spot.f!==o){spot.f.querySelector("output").textContent="";spot.f.querySelector(".mark").removeAttribute("d")}
spot=o&&{f:o,e};if(o)show()};
const show=()=>{const {f,e}=spot,s=f.querySelector("svg").getBoundingClientRect(),v=f.dataset.slots;
const n=Math.min(v-1,Math.max(0,Math.floor((e.clientX-s.left)/s.width*v))),at=+f.dataset.from+n*f.dataset.slot;
const row=document.querySelector('[data-at="'+at/6e4+'"]'),i=1+2*$(".chart").indexOf(f);
const [a,b]=[i,i+1].map(c=>row?row.closest("tr").cells[c].textContent:0);
const names=$(".key",f).map(k=>k.firstChild.textContent.trim());
f.querySelector(".mark").setAttribute("d","M"+(n*4+1.5)+" 0v100");
spot.to=during(at,f);
f.querySelector("output").textContent=forms.minute.format(at)+"  "+a+" "+names[0]+", "+b+" "+names[1]};
["pointermove","pointerdown"].forEach(t=>document.addEventListener(t,read));
document.documentElement.addEventListener("pointerleave",e=>read({target:document}));
document.addEventListener("click",e=>{if(e.pointerType!=="touch"&&e.target.closest&&e.target.closest(".plot")&&spot)location.href=spot.to});
$(".plot").forEach(p=>p.dataset.to="");
const search=document.querySelector("[data-search]");
if(search){const root=document.querySelector(".json");search.parentNode.hidden=false;
search.addEventListener("input",()=>{const q=search.value.toLowerCase();let n=0;
const hits=l=>{const hit=[...l.childNodes].map(c=>c.nodeName==="I"?"":c.textContent).join("").toLowerCase().includes(q);
n+=hit;return hit};
$("div",root).forEach(l=>l.hidden=!hits(l));
$("details",root).reverse().forEach(d=>{const own=hits(d.firstElementChild);
if(q&&own)$("div,details",d).forEach(x=>x.hidden=false);
d.hidden=!(own||[...d.children].slice(1).some(c=>!c.hidden));if(q&&!d.hidden)d.open=true});
search.nextElementSibling.textContent=q?n+" found":""})}
const toLogin=r=>new URL(r.url).pathname.endsWith("/login");
const moved=document.querySelector("[data-next]");
if(moved)fetch(moved.href,{headers:{"X-Poll":"1"}}).then(r=>{if(!toLogin(r))location.replace(moved.href)},()=>{});
let live=document.querySelector("[data-live]");const button=document.querySelector("[data-pause]");
if(!live||!button)return;
const state=button.nextElementSibling;let paused=sessionStorage.paused==="1",pressed=false,timer,busy=false;button.hidden=false;
["pointerdown","pointermove","pointerup","pointercancel"].forEach(t=>document.addEventListener(t,e=>pressed=e.buttons>0&&!!live&&live.contains(e.target),true));
const key=e=>{if(e.nodeType!==1)return e.nodeType;const t=e.nodeName,q=s=>e.querySelector(s);
return t+(e.id||e.getAttribute("href")||(t==="TR"?q("a")?.getAttribute("href")||q("th,td")?.textContent:t==="LI"?q("b")?.textContent:
t==="DT"?e.textContent:t==="DD"?e.previousElementSibling?.textContent:"")||"")};
let answered=Date.now();const lost=isLost=>{let n=document.querySelector("#lost");if(live)live.classList.toggle("stale",isLost);
if(!isLost){n&&n.remove();return}
if(!n){n=document.createElement("div");n.id="lost";n.className="note bad";n.setAttribute("role","alert");
n.textContent="Not reached since "+forms.short.format(answered)+". What is shown is of that time.";live.before(n)}};
let kept=false;const morph=(a,b)=>{if(a.isEqualNode(b)||a.nodeType===1&&a.matches("output,.mark"))return;
if(a.nodeType!==1){const s=getSelection();if(s.isCollapsed||!s.containsNode(a,true))a.nodeValue=b.nodeValue;else kept=true;return}
for(const {name} of [...a.attributes])if(name!=="open"&&name!=="data-to"&&!b.hasAttribute(name))a.removeAttribute(name);
for(const {name,value} of b.attributes)if(name!=="open"&&a.getAttribute(name)!==value)a.setAttribute(name,value);
const old=new Map();for(const c of a.childNodes){const k=key(c);old.has(k)?old.get(k).push(c):old.set(k,[c])}
const all=[...b.childNodes].map(n=>[n,old.get(key(n))?.shift()]);
old.forEach(l=>l.forEach(o=>o.remove()));let at=a.firstChild;
for(const [n,o] of all)if(!o)a.insertBefore(n,at);else{if(o===at)at=at.nextSibling;else a.insertBefore(o,at);morph(o,n)}};
const again=()=>{clearTimeout(timer);if(live&&!paused&&!document.hidden)timer=setTimeout(refresh,live.dataset.live==="rest"&&!kept?1e4:2e3)};
const parse=async r=>new DOMParser().parseFromString(await r.text(),"text/html");
const end=()=>{live=undefined;button.hidden=true};
async function refresh(){if(busy||!live)return;busy=true;try{
const r=await fetch(live.dataset.poll||location.href,{headers:{"X-Poll":"1"},cache:"no-store",signal:AbortSignal.timeout(2e4)});
if(toLogin(r))return location.reload();
if(r.status===404&&/\\/(delivery|progress)$/.test(location.pathname)){const note=(await parse(r)).querySelector("[role=alert]");if(!note)throw 0;
$(".head .row",live).forEach(b=>b.remove());state.textContent="";live.prepend(note);return end()}
if(!r.ok)throw 0;
answered=Date.now();lost(false);
let next=await parse(r);const gone=next.querySelector("[data-payload] p");
next=next.querySelector("[data-live]");
if(!next)return location.reload();
localize(next);state.textContent="";
if(paused||pressed)return;
if(gone)$("a[download]").forEach(a=>{const s=document.createElement("span");s.className="dim";s.textContent=gone.textContent;a.replaceWith(s)});
const focus=document.activeElement;kept=false;morph(live,next);
if(live.dataset.live==="end"&&!kept)end();
if(focus.isConnected&&!focus.hidden){if(focus!==document.activeElement)focus.focus({preventScroll:true})}
else{const h=document.querySelector("h1");h.tabIndex=-1;h.focus({preventScroll:true})}
if(spot&&spot.f.isConnected)show();
if(kept)state.textContent="selected text is not refreshed";
}catch{if(live)lost(true)}finally{busy=false;again()}}
const tell=()=>{button.textContent=paused?"Resume":"Pause";button.setAttribute("aria-pressed",paused)};tell();
button.addEventListener("click",()=>{paused=!paused;tell();sessionStorage.paused=paused?1:"";
if(paused)clearTimeout(timer);else refresh()});
document.addEventListener("visibilitychange",()=>{if(document.hidden)clearTimeout(timer);else if(!paused)refresh()});
again()})();`;
