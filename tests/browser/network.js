/**
 * The network between the browser and the stack, which can be lost: a proxy on 127.0.0.1 that everything of the browser
 * goes through. Real connections break, as they do in a tunnel.
 */
import { once } from "node:events";
import { createServer, request } from "node:http";
import { connect } from "node:net";

export class Network {
  /** Whether nothing gets through. */
  lost = false;
  /** Whether everything but WebSockets gets through, as behind some companies' proxies. */
  withoutSockets = false;
  #connections = new Set();
  #tunnels = new Set();

  static async start() {
    const network = new Network();
    network.server = createServer((incoming, outgoing) => network.#forward(incoming, outgoing));
    network.server.on("connect", (incoming, socket, head) => network.#tunnel(incoming, socket, head));
    network.server.on("connection", (socket) => {
      network.#connections.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => network.#connections.delete(socket));
    });
    network.server.listen(0, "127.0.0.1");
    await once(network.server, "listening");
    network.address = `http://127.0.0.1:${network.server.address().port}`;
    return network;
  }

  /** Breaks every connection; new ones fail until `restore`. */
  lose() {
    this.lost = true;
    this.#break(this.#connections);
    this.#break(this.#tunnels);
  }

  restore() {
    this.lost = false;
  }

  /** Breaks the WebSockets; new ones fail. */
  loseSockets() {
    this.withoutSockets = true;
    this.#break(this.#tunnels);
  }

  async stop() {
    this.lose();
    this.server.close();
    await once(this.server, "close");
  }

  #break(sockets) {
    for (const socket of [...sockets]) socket.destroy();
  }

  #forward(incoming, outgoing) {
    if (this.lost) return void incoming.socket.destroy();
    const onward = request(incoming.url, { method: incoming.method, headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
      answer.on("error", () => outgoing.destroy());
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  }

  /** Browsers reach a WebSocket through a proxy by CONNECT. */
  #tunnel(incoming, socket, head) {
    socket.on("error", () => {});
    if (this.lost || this.withoutSockets) return void socket.destroy();
    const { hostname, port } = new URL(`http://${incoming.url}`);
    const onward = connect(Number(port), hostname, () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      onward.write(head);
      onward.pipe(socket);
      socket.pipe(onward);
    });
    for (const [one, other] of [[socket, onward], [onward, socket]]) {
      this.#tunnels.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        this.#tunnels.delete(one);
        other.destroy();
      });
    }
  }
}
