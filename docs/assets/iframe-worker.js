// Search on a site that is opened from disk. Browsers refuse workers there, so the script of a worker runs in a hidden
// frame. mkdocs-material would load a script of this name from the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.body.appendChild(document.createElement("iframe"))
      frame.hidden = true
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.loaded = new Promise(resolve => {
        const script = this.inside.document.createElement("script")
        script.onload = resolve
        script.src = address
        this.inside.document.head.appendChild(script)
      })
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
    }
  }
}
