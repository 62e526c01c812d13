// How the phone looks.

export const phoneStyle = `
.stage{display:grid;gap:1rem}
.stage header p:last-child{margin:0}
.story{margin-top:1rem}
@media (min-width:48rem){.stage{grid-template:1fr auto auto 1fr/1fr 21rem;column-gap:4rem;min-height:100vh;align-content:center}.stage header{grid-area:2/1}.story{grid-area:3/1;margin:0}.phone{grid-area:1/2/5/3;align-self:center}}
.number{white-space:nowrap;font-variant-numeric:tabular-nums}
.hints{padding:0;margin:0 0 1rem;list-style:none;display:grid;gap:.35rem}
.hints strong{display:inline-block;min-width:4.25rem;font-variant-numeric:tabular-nums}
.script{padding:.75rem 1rem;border-left:4px solid #c2571a;background:#fff0e2;border-radius:0 .6rem .6rem 0}
.phone{width:min(100%,21rem);margin:0 auto;padding:.7rem;border-radius:3rem;background:#17112a;box-shadow:0 0 0 2px #3a2f57,0 2rem 4rem -1.5rem #2b1a5299}
.screen{position:relative;display:flex;flex-direction:column;min-height:38rem;border-radius:2.4rem;overflow:hidden;color:#fff;background:linear-gradient(#24154a,#5a2a5f 45%,#a8485a 72%,#f08a4b)}
.bar{display:flex;justify-content:space-between;padding:.9rem 1.6rem .5rem;font-size:.85rem;font-weight:600;font-variant-numeric:tabular-nums}
.skyline{position:absolute;inset:auto 0 0;width:100%;height:8rem}
.skyline circle{fill:#ffd9a0}
.skyline path{fill:#2a1638}
.home{position:relative;flex:1;padding:1rem 1rem 9rem}
.quiet{margin:1rem .6rem 1.5rem;text-align:center;font-size:.95rem;color:#f3e6f7}
.messages{display:grid;gap:.6rem;margin:0;padding:0;list-style:none}
.messages li{padding:.75rem .9rem;border-radius:1rem;background:#fffffff2;color:var(--ink);font-size:.9rem;line-height:1.4;overflow-wrap:anywhere}
.messages b{display:block;font-size:.75rem;letter-spacing:.03em;color:var(--leaf-deep)}
.messages li.unpaid b{color:var(--fruit)}
.hand{margin-top:1rem;padding:.75rem .9rem;border-radius:1rem;background:#fffffff2;color:var(--ink);font-size:.9rem}
.hand summary{font-weight:650;cursor:pointer}
.hand form{display:grid;gap:.35rem;margin-top:.75rem}
.hand label{font-size:.875rem;font-weight:600;color:var(--soft)}
.hand input,.hand select{width:100%;min-height:2.75rem;padding:.5rem .7rem;border:1px solid #857a9b;border-radius:.6rem;background:var(--card);font:inherit;color:inherit}
.hand .problem{margin:0;min-height:1.5em;font-size:.875rem}
#hand-account{display:grid;gap:.35rem}
#hand-account[hidden]{display:none}
.prompt{position:absolute;inset:0;display:grid;place-items:center;padding:1rem;background:#120a24b8}
.prompt[hidden]{display:none}
.prompt form{width:100%;padding:1.25rem;border-radius:1.4rem;background:var(--card);color:var(--ink);box-shadow:0 1rem 2rem #0006;animation:arrive .22s ease-out}
.question{font-size:1.05rem;font-weight:600;line-height:1.4;overflow-wrap:anywhere;text-wrap:balance}
.prompt label{font-size:.875rem;font-weight:600;color:var(--soft)}
.prompt input{display:block;width:100%;margin:.35rem 0 .5rem;padding:.5rem;border:1px solid #857a9b;border-radius:.8rem;text-align:center;font-size:1.6rem;letter-spacing:.6em;text-indent:.6em;background:#fbf6fb}
.prompt input[aria-invalid=true]{border-color:var(--fruit)}
.hint{margin:0;font-size:.875rem;color:var(--soft)}
.prompt .problem{margin:.25rem 0 0;min-height:1.5em;font-size:.875rem}
.choices{display:grid;grid-template-columns:1fr 1fr;gap:.6rem;margin-top:.5rem}
.choices button{min-height:2.9rem;border-radius:.9rem}
.plain-button{border:1px solid #857a9b;background:transparent;font-weight:600;cursor:pointer}
.plain-button:hover{background:#f6ecf1}
button:disabled{opacity:.6;cursor:default}
.rule{display:flex;gap:.7rem;align-items:center;min-height:2.75rem}
.rule input{flex:none;width:1.25rem;height:1.25rem}
.messages li:nth-child(n+4){display:none}
.messages:focus{outline:none}
@keyframes arrive{from{opacity:0;transform:translateY(1rem) scale(.97)}}
@media (prefers-reduced-motion:reduce){.prompt form{animation:none}}
`;
