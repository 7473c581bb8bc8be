/** Icons of our own: Headlamp asks a server elsewhere for those that it doesn't have, and many clusters reach none. */
const SIZE = { width: 24, height: 24 };

export const PAUSE = { ...SIZE, body: '<path fill="currentColor" d="M6 5h4v14H6zm8 0h4v14h-4z"/>' };
export const PLAY = { ...SIZE, body: '<path fill="currentColor" d="M8 5v14l11-7z"/>' };
export const STOP = { ...SIZE, body: '<path fill="currentColor" d="M6 6h12v12H6z"/>' };

/** Podtune's mark, as in docs/site/mark.svg. */
export const MARK = {
  ...SIZE,
  body:
    '<g fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round">' +
    '<path d="M4 20V11M9.3 20V6M14.7 20V14M20 20V9"/></g><g fill="currentColor">' +
    '<circle cx="4" cy="7" r="2.2"/><circle cx="9.3" cy="2.8" r="2.2"/>' +
    '<circle cx="14.7" cy="10.5" r="2.2"/><circle cx="20" cy="5.5" r="2.2"/></g>',
};
