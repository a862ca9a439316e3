"""A collector of traces, which reads them with OpenTelemetry's own messages and tells what it has read."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import unknown_fields
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.trace.v1 import trace_pb2 as trace

spans = []


def unknown(message):
    """Whether a message, or one in it, has a field that OpenTelemetry's does not know."""
    if len(unknown_fields.UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            if any(unknown(one) for one in (value if field.is_repeated else [value])):
                return True
    return False


def value(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(one) for one in any_value.array_value.values]
    return getattr(any_value, kind)


def attributes(pairs):
    return {pair.key: value(pair.value) for pair in pairs}


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request = service.ExportTraceServiceRequest.FromString(body)
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    spans.append(
                        {
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "name": span.name,
                            "kind": trace.Span.SpanKind.Name(span.kind),
                            "status": trace.Status.StatusCode.Name(span.status.code),
                            "attributes": attributes(span.attributes),
                            "resource": attributes(of_resource.resource.attributes),
                            "schema": of_resource.schema_url,
                            "scope": of_scope.scope.name,
                            "unknown": unknown(request),
                        }
                    )
        self.answer(service.ExportTraceServiceResponse().SerializeToString(), "application/x-protobuf")

    def do_GET(self):
        self.answer(json.dumps(spans).encode(), "application/json")

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
