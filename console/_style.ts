/** Style of all pages. */
export const STYLE =
  `:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--line:#e3e2de;--text:#1c1b19;--dim:#66635c;
--link:#1f4fbf;--accent:#2b5fd9;--soft:#f2f1ed;--queued:#7a5500;--running:#1f4fbf;--parked:#6a3fb0;--done:#1b6b3a;
--dead:#b3241b;--s0:#5b8def;--s1:#e0574c;--string:#1b6b3a;--num:#1f4fbf;--word:#8a3b9e;--name:#7a4a00}
@media (prefers-color-scheme:dark){:root{--bg:#141413;--card:#1c1c1a;--line:#33322f;--text:#eceae4;--dim:#a5a198;
--link:#8fb3ff;--accent:#3d6fe0;--soft:#262522;--queued:#e8b64c;--running:#8fb3ff;--parked:#c3a3f5;--done:#74cf95;
--dead:#ff8f85;--s0:#4f83e8;--s1:#e8695e;--string:#8fd6a6;--num:#8fb3ff;--word:#dda0ec;--name:#e3b873}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:14px/1.45 system-ui,sans-serif;font-variant-numeric:tabular-nums}
a,b,span,code{unicode-bidi:isolate}
a{color:var(--link);text-underline-offset:2px;text-decoration-thickness:1px}
a:not(:hover){text-decoration-color:color-mix(in srgb,currentColor 35%,transparent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
code,pre,.mono,.json{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.skip{position:absolute;left:-99em}.skip:focus{left:8px;top:8px;background:var(--card);padding:4px 8px;z-index:2}
.top{background:var(--card);border-bottom:1px solid var(--line)}
.top>div,main{max-width:1200px;margin:auto;padding:0 20px}
.top>div{display:flex;flex-wrap:wrap;align-items:center;gap:0 18px;min-height:48px}
.brand{font-weight:650;font-size:15px;display:flex;flex-wrap:wrap;gap:0 8px;align-items:center;min-width:0;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:0 2px;flex:1}
nav a{padding:13px 10px 11px;color:var(--dim);text-decoration:none;border-bottom:2px solid transparent}
nav a:hover{color:var(--text)}nav a[aria-current]{color:var(--text);border-color:var(--accent);font-weight:550}
.who{display:flex;gap:10px;align-items:center;color:var(--dim);margin-left:auto}
main{padding-top:20px;padding-bottom:48px}
h1{font-size:19px;font-weight:650;margin:0;line-height:1.3;overflow-wrap:anywhere}
h2{font-size:13px;font-weight:650;margin:26px 0 8px}
.head{display:flex;flex-wrap:wrap;gap:8px 12px;align-items:center;margin-bottom:16px}.head>:last-child:not(h1,.state,.dim){margin-left:auto}
.badge{font-size:12px;font-weight:550;border:1px solid var(--line);border-radius:99px;padding:0 8px;color:var(--dim);white-space:nowrap}
.badge.bad{color:var(--dead);border-color:currentColor}
.state{color:var(--dim);font-weight:550;white-space:nowrap}
.state::before{content:"";display:inline-block;width:8px;height:8px;border-radius:50%;margin-right:6px;background:currentColor}
.queued{color:var(--queued)}.running{color:var(--running)}.parked{color:var(--parked)}.done{color:var(--done)}.dead,.unreadable,.error{color:var(--dead)}
.tiles,.strip{display:flex;flex-wrap:wrap;gap:1px;background:var(--line);border:1px solid var(--line);border-radius:8px;overflow:hidden}
.tiles>*{flex:1 1 128px}.strip>*{flex:1 1 160px}.strip+*{margin:12px 0 16px}.strip .dim{overflow-wrap:anywhere}
:is(.tiles,.strip)>*{background:var(--card);padding:10px 14px 12px;text-decoration:none;color:inherit}
:is(.tiles,.strip) a:hover{background:var(--soft)}:is(.tiles,.strip) a:focus-visible{outline-offset:-3px}
:is(.tiles,.strip) b{display:block;font-size:22px;font-weight:600;line-height:1.25;color:var(--text);white-space:nowrap}
:is(.tiles,.strip) span{font-size:12.5px}.dim,.tiles .dim{color:var(--dim)}.strip .bad b{color:var(--dead)}
ul.wrong{margin:0;padding:0 0 0 18px}ul.wrong li{margin:4px 0}ul.wrong p{display:inline;margin-right:8px}.note.bad:has(ul){max-width:none}
.cols{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:0 20px}
.chart{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px 8px}
.charts{margin-top:16px;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:16px 20px}
figcaption{display:flex;flex-wrap:wrap;gap:2px 14px;min-height:21px;position:relative}figcaption output{position:absolute;right:0;top:100%;white-space:nowrap;color:var(--dim);font-size:12.5px}
.key{color:var(--dim)}.key b{color:var(--text);font-weight:550}.key::before{content:"";display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:6px}
.key.s0::before{background:var(--s0)}.key.s1::before{background:var(--s1)}
path{stroke:var(--s0);stroke-width:3}path.s1{stroke:var(--s1)}path.mark{stroke:var(--text);stroke-width:.5}.plot[data-to]{cursor:pointer}
.stale{opacity:.45}
.plot{position:relative;margin-top:20px;border-bottom:1px solid var(--line);background:linear-gradient(var(--line),var(--line)) 0 0/100% 1px no-repeat}
.plot svg{display:block;width:100%;height:108px}.max{position:absolute;left:0;top:-17px;font-size:11px;color:var(--dim)}
.spark{display:block;width:110px;height:20px}.axis{display:flex;justify-content:space-between;font-size:11px;color:var(--dim);padding-top:3px}
.values,.payload{margin-top:12px}.values summary,.payload>summary{cursor:pointer;width:max-content;color:var(--dim);padding:4px 0}.values .scroll{max-height:320px;margin-top:8px}.values td,.nums td+td{text-align:right}
.tabs{display:inline-flex;border:1px solid var(--line);border-radius:6px;overflow:hidden;background:var(--card)}
.tabs a{padding:4px 12px;text-decoration:none;color:var(--dim)}.tabs a[aria-current]{background:var(--soft);color:var(--text);font-weight:550}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px;background:var(--card)}
table{border-collapse:collapse;width:100%}th{font-weight:550;color:var(--dim);font-size:12.5px;text-align:left}
th,td{padding:6px 14px;border-bottom:1px solid var(--line);vertical-align:baseline}tbody tr:last-child>*{border-bottom:0}
tbody tr:hover{background:var(--soft)}.num{text-align:right;white-space:nowrap}td time{white-space:nowrap}
a.badge{padding:3px 10px;text-decoration:none;background:var(--card)}.badge b{color:var(--text)}p.row{min-height:32px;margin:0 0 8px}
td .mono,.wrap,.cols td:first-child{overflow-wrap:anywhere}.list .id{max-width:230px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}.list td:first-child{max-width:260px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.list td.wrap{min-width:300px;width:45%}.list td:nth-child(2) .dim{white-space:nowrap}
@media (min-width:641px){.cards td.wrap:first-child{min-width:220px}.list td.wrap:has(+td.wrap){min-width:160px;width:20%}.list td.wrap+td.wrap{min-width:250px}.list td.wrap+td.wrap~.id{max-width:120px}}
.why{display:block;white-space:normal;overflow-wrap:anywhere;font-size:12.5px}
form.filter{display:grid;grid-template-columns:repeat(auto-fill,minmax(215px,1fr));gap:10px;align-items:end;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px;margin-top:8px}
.filters{margin-bottom:16px}.filters summary{cursor:pointer;width:max-content;color:var(--dim);padding:4px 0}
@media (min-width:641px){@supports selector(::details-content){.filters summary{display:none}.filters::details-content{content-visibility:visible}form.filter{margin-top:0}}}
label{display:block;font-size:12.5px;color:var(--dim)}
input[type=datetime-local]{font-size:13px!important}
input,select,textarea{font:inherit;color:var(--text);background:var(--bg);border:1px solid color-mix(in srgb,var(--dim) 75%,transparent);border-radius:6px;padding:5px 8px;width:100%;min-height:32px}
textarea{font:12.5px/1.5 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;min-height:260px}
button,.button{font:inherit;font-weight:550;display:inline-block;border:1px solid color-mix(in srgb,var(--dim) 60%,transparent);border-radius:6px;background:var(--card);color:var(--text);padding:5px 12px;min-height:32px;cursor:pointer;text-decoration:none}
button:hover,.button:hover{background:var(--soft)}
button.go{background:#2b5fd9;border-color:#2b5fd9;color:#fff}button.go:hover{background:#214fbb}
button.danger{background:#b3241b;border-color:#b3241b;color:#fff}button.danger:hover{background:#931b14}
button.text{border:0;background:none;color:var(--link);padding:0 2px;min-height:24px;font-weight:400;text-decoration:underline;text-underline-offset:2px}
.head form{flex-wrap:nowrap;max-width:100%}.head form input{min-width:0;width:310px;flex:0 1 310px}
.row label{display:inline}.row input{width:auto}h2.first{margin-top:0}
.row{display:flex;flex-wrap:wrap;gap:8px;align-items:center}
.more{display:flex;flex-wrap:wrap;gap:8px 16px;align-items:center;margin-top:12px;color:var(--dim)}
.row+dl{margin-top:14px}.more a[aria-current]{color:var(--text);font-weight:550;text-decoration:none}
.note,.empty{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 18px;margin:16px 0;max-width:72ch}.empty h2{margin-top:0}
.note.bad{border-color:var(--dead)}.note p,.empty p{margin:0 0 8px}.note p:last-child,.empty p:last-child{margin:0}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:5px 18px;margin:0}dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
ol.line{overflow-wrap:anywhere;list-style:none;margin:0;padding:0 0 0 5px}
ol.line>li{border-left:2px solid var(--line);padding:0 0 14px 18px;position:relative}ol.line>li:last-child{border-color:transparent;padding-bottom:0}
ol.line>li::before{content:"";position:absolute;left:-6px;top:5px;width:10px;height:10px;border-radius:50%;background:currentColor;border:2px solid var(--bg)}
ol.line b{font-weight:600}ol.line div,ol.line>li>:not(b){color:var(--text)}ol.line .dim{color:var(--dim)}
pre+.row{margin-top:8px}pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0 0;background:var(--soft);border-radius:6px;padding:6px 10px}
.row+.json{margin-top:8px}.json{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px;overflow:auto;overflow-wrap:anywhere}
.json pre{background:none;padding:0;margin:0}.json details details,.json details>div{margin-left:18px}.json>details>summary{margin-left:0}
.json summary{cursor:pointer;padding:3px 0;width:max-content;max-width:100%}.json div{padding-left:13px}
.json .k{color:var(--name)}.json .s{color:var(--string)}.json .n{color:var(--num)}.json .w{color:var(--word)}.json i{color:var(--dim);font-style:normal}
.json [hidden]{display:none}
.wide{flex-basis:100%}.wide textarea{min-height:90px}td form.row,td .row{flex-wrap:nowrap}td button{white-space:nowrap}
.tree{overflow-wrap:anywhere;margin:0;padding-left:18px}
progress{width:100%;height:10px;accent-color:var(--accent)}
.login{max-width:380px;margin:12vh auto 0}.login form{display:grid;gap:12px;margin-top:16px}
[hidden]{display:none}
@media (max-width:1180px){.list .id{display:none}}
@media (max-width:640px){.nums tr>:nth-child(4){display:none}.nums :is(th,td),.values :is(th,td){padding:6px}.top>div,main{padding-left:14px;padding-right:14px}nav{order:3;flex:1 0 100%;margin:0 -8px}nav a{padding:7px 8px 5px}
.role{display:none}.brand{min-height:44px}.top>div{column-gap:8px}.who{gap:6px}main{padding-top:14px}th,td{padding:6px 10px}
.list thead{position:absolute;left:-99em}.list tr{display:grid;grid-template-columns:minmax(55%,1fr) auto;gap:1px 12px;padding:8px 12px;border-bottom:1px solid var(--line)}
.list tbody tr:last-child{border:0}.list td,.list tr:last-child>td{border:0;padding:0;text-align:left;max-width:100%}.list td:nth-child(2n),.list tr:last-child>td:nth-child(2n){text-align:right}.list td:first-child{white-space:normal;overflow-wrap:anywhere}.list .off{display:none}.list td.wrap,.list tr:last-child>td.wrap{grid-column:1/-1;width:auto;min-width:0;text-align:left}.list td:has(>time){order:9}
.head form{width:100%}.head form input{flex:1}
.cards thead{position:absolute;left:-99em}.cards tr,.cards td{display:block}.cards tr{padding:8px 12px;border-bottom:1px solid var(--line)}.cards tbody tr:last-child{border:0}
.cards td:nth-child(n){border:0;padding:1px 0;text-align:left;white-space:normal}.cards td.num{display:inline-block;margin-right:14px}.cards :is(.off,td:empty){display:none}
.cards [data-label]::before{content:attr(data-label)" ";color:var(--dim)}
dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:8px}.tiles>*,.strip>*{flex-basis:40%}form.filter{grid-template-columns:repeat(2,minmax(0,1fr))}form.filter label:has([data-utc]){grid-column:1/-1}section+section>h2.first{margin-top:22px}nav a{white-space:nowrap}}
@media (max-width:640px){.acts td:is(:nth-child(3),:nth-child(4)){grid-column:1/-1}.acts tr>td:nth-child(4){text-align:left!important}.acts td.off{display:block;color:var(--dim)}.acts td.num::before{content:"changed "}}
@media (forced-colors:active){.state::before,.key::before,ol.line>li::before,svg{forced-color-adjust:none}nav a{border-color:Canvas}nav a[aria-current]{border-color:Highlight}.tabs a[aria-current]{text-decoration:underline}}
@media (prefers-reduced-motion:no-preference){.live{animation:pulse 2s infinite}@keyframes pulse{50%{opacity:.45}}}`;
