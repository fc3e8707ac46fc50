// The page of one model on all marches: nothing but theme and language.
begin();
window.bpucReport = { ready: true };
