// Fades out the lower edge of a scrollable box while there is more below: phones draw no scroll bar.

const TOLERANCE_PX = 4; // heights are fractional on zoomed pages

/** Give a node the class `goes-on` while its content continues below the visible part; returns the node. */
export function fades(node) {
  const draw = () =>
    node.classList.toggle("goes-on", node.scrollHeight - node.scrollTop - node.clientHeight > TOLERANCE_PX);
  const sizes = new ResizeObserver(draw);
  const watch = () => {
    sizes.disconnect();
    [node, ...node.children].forEach((element) => sizes.observe(element));
  };
  node.addEventListener("scroll", draw, { passive: true });
  new MutationObserver(watch).observe(node, { childList: true });
  watch();
  return node;
}
