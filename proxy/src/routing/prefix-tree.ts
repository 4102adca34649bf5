/**
 * A tree of path prefixes by segment. A node is one prefix of a route, or the common part of several prefixes. Thus the
 * size of the tree depends on the number of prefixes and not on the number of their segments.
 */

/** A prefix, or the common part of several prefixes. */
export interface PrefixNode {
  /** The segments after those of its parent, such as `a/b`; empty for the root. */
  label: string;
  /** By the first segment of their labels; undefined for a leaf, as most nodes are. */
  children: Map<string, PrefixNode> | undefined;
  /**
   * The ranks from `from` up to `to` belong to its own matches, the ranks from `to` up to `end` to the nodes below it.
   */
  from: number;
  to: number;
  end: number;
}

/** The value of `from`, `to` and `end` of a node that has no ranks yet. */
export const unranked = -1;

/** Returns a node without children and ranks. */
export function createNode(label: string): PrefixNode {
  return { label, children: undefined, from: unranked, to: unranked, end: unranked };
}

/** Returns the node of a prefix such as `/`, `/a` or `/a/b`. Creates it if it is missing. */
export function findOrCreateNode(root: PrefixNode, prefix: string): PrefixNode {
  if (prefix === "/") return root;
  let node = root;
  for (let start = 1; start <= prefix.length; ) {
    const segment = segmentAt(prefix, start);
    const child = node.children?.get(segment);
    if (child === undefined) return addChild(node, segment, createNode(prefix.slice(start)));
    const common = commonLength(child.label, prefix, start);
    node = common === child.label.length ? child : split(node, segment, child, common);
    start += common + 1;
  }
  return node;
}

/** Returns the segment that begins at `start`. */
export function segmentAt(path: string, start: number): string {
  const slash = path.indexOf("/", start);
  return path.slice(start, slash === -1 ? undefined : slash);
}

/** Whether the path has the segments of `label` at `start`, as whole segments. */
export function hasSegments(path: string, start: number, label: string): boolean {
  return path.startsWith(label, start) && endsSegment(path, start + label.length);
}

function addChild(node: PrefixNode, segment: string, child: PrefixNode): PrefixNode {
  node.children ??= new Map();
  node.children.set(segment, child);
  return child;
}

/** Inserts a node for the first `length` characters of a child's label between parent and child. */
function split(parent: PrefixNode, segment: string, child: PrefixNode, length: number): PrefixNode {
  const upper = addChild(parent, segment, createNode(child.label.slice(0, length)));
  child.label = child.label.slice(length + 1);
  addChild(upper, segmentAt(child.label, 0), child);
  return upper;
}

/** Returns how many characters of `label` the prefix has at `start`, in whole segments: at least the first segment. */
function commonLength(label: string, prefix: string, start: number): number {
  const longest = Math.min(label.length, prefix.length - start);
  let length = 0;
  while (length < longest && label.charCodeAt(length) === prefix.charCodeAt(start + length)) length++;
  const endsInBoth = endsSegment(label, length) && endsSegment(prefix, start + length);
  return endsInBoth ? length : label.lastIndexOf("/", length - 1);
}

function endsSegment(path: string, at: number): boolean {
  return at === path.length || path.charCodeAt(at) === 0x2f;
}
