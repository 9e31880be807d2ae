"""Scales a StatefulSet of an API server that has one answer, and prints what that was asked; run in an image."""

import http.server
import threading

from kubernetes import client

from towpath.coordinator.statefulsets import StatefulSets

ASKED: list[str] = []
SCALE = b'{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}}'


class Api(http.server.BaseHTTPRequestHandler):
    """Answers every request with a scale."""

    def do_GET(self) -> None:
        ASKED.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(SCALE)))
        self.end_headers()
        self.wfile.write(SCALE)

    def do_PATCH(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing more."""


server = http.server.HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
configuration = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
sets = StatefulSets(client.AppsV1Api(client.ApiClient(configuration)), "towpath", "{stage}")
replicas = sets.read("count")
sets.write("count", 2, 3)
print(replicas, *ASKED)
