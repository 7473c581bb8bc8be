// Search runs in a Web Worker, and browsers start none from a file on the disk. There a hidden frame takes its place.
// Without this script, the theme's offline plugin has each page ask another server for one; it goes by this file's name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #scope;

    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.#scope = new Promise((resolve, reject) => {
        frame.addEventListener("load", () => resolve(this.#run(new URL(address, location), frame.contentWindow)), { once: true });
        frame.addEventListener("error", reject);
      });
      document.body.append(frame);
    }

    // Runs the script in the frame, where what it posts comes to this object.
    #run(address, scope) {
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      return new Promise((resolve, reject) => {
        const script = scope.document.createElement("script");
        script.src = address;
        script.addEventListener("load", () => resolve(scope));
        script.addEventListener("error", () => reject(new Error(`cannot read ${address}`)));
        scope.document.head.append(script);
      });
    }

    async postMessage(data) {
      const scope = await this.#scope;
      scope.dispatchEvent(new scope.MessageEvent("message", { data }));
    }
  };
}
