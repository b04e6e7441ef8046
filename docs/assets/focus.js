// Code and tables that scroll can be focused from the keyboard. The theme allows it only where there is a mouse.
(() => {
  const update = () => {
    for (const one of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
      if (one.scrollWidth > one.clientWidth && !one.hasAttribute("tabindex")) one.tabIndex = 0;
    }
  };
  const changes = { attributeFilter: ["tabindex"], childList: true, subtree: true };
  new MutationObserver(update).observe(document.body, changes);
  addEventListener("resize", update);
  update();
})();
