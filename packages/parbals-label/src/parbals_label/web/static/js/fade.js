// What scrolls inside a frame shows that it goes on: phones draw no scroll bar.

const SLACK = 4; // pixels; zoomed pages do not end on whole ones

/** The same node, with the class `goes-on` while there is more below what is seen. */
export function fades(node) {
  const draw = () =>
    node.classList.toggle("goes-on", node.scrollHeight - node.scrollTop - node.clientHeight > SLACK);
  const sizes = new ResizeObserver(draw);
  const watch = () => {
    sizes.disconnect();
    [node, ...node.children].forEach((part) => sizes.observe(part));
  };
  node.addEventListener("scroll", draw, { passive: true });
  new MutationObserver(watch).observe(node, { childList: true });
  watch();
  return node;
}
