"""template.yaml, deployed to MiniStack with the real binaries.

MiniStack is asked for what CloudFormation would be asked for. What is changed before, and why, is in `_for_ministack`;
where it behaves otherwise than AWS is in README.md beside this file.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import boto3
from botocore.config import Config

import issuer
from servers import Outside

ROOT = Path(__file__).resolve().parents[3]
BINARIES = Path(os.environ.get("LONGHAUL_BINARIES", ROOT / "target" / "debug"))
NAME = "longhaul"
ISSUER, AUDIENCE, TENANT = "https://issuer.example/", "longhaul", "acme"
FUNCTIONS = {"ApiFunction": "longhaul-api", "WorkerFunction": "longhaul-worker",
             "WebSocketFunction": "longhaul-websocket", "SweeperFunction": "longhaul-sweeper",
             "StreamsFunction": "longhaul-api"}
# MiniStack's own; any would do.
REGION, KEY_ID, KEY = "us-east-1", "test", "test"
# The shortest invocation that the template offers, so that a job of half a minute needs two.
WORKER_TIMEOUT_SECONDS = 30
MODEL_TIME_LIMIT_SECONDS = 5
THINK_SECONDS = 1.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Stack:
    """A running MiniStack with the deployed system in it."""

    def __init__(self, folder: Path):
        self.port = _free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        issuer.make_key(folder / "issuer")
        self.outside = Outside((folder / "issuer" / "jwks.json").read_text(), THINK_SECONDS)
        self._keys = folder / "issuer"
        self.log = folder / "ministack.log"
        self._process = self._start(folder)
        try:
            self._wait_for_health()
            self.outputs, self.resources = self._deploy()
        except BaseException:
            self.stop()
            raise

    def _start(self, folder: Path) -> subprocess.Popen:
        environment = os.environ | {
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "TMPDIR": str(folder),
            # Functions have it from the emulator alone.
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_DEFAULT_REGION": REGION,
            # The roles are enforced: a right that is missing in the template fails the test.
            # Listeners that nobody needs here.
            "SFTP_ENABLED": "false",
            "IOT_MTLS_ENABLED": "false",
            "AUTH": os.environ.get("LONGHAUL_MINISTACK_AUTH", "true"),
        }
        return subprocess.Popen([sys.executable, "-m", "ministack"], env=environment, cwd=folder,
                                stdout=self.log.open("w"), stderr=subprocess.STDOUT, start_new_session=True)

    def _wait_for_health(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"MiniStack did not start; its log is {self.log}")

    def client(self, service: str):
        """A client of an emulated service."""
        return boto3.client(service, endpoint_url=self.endpoint, region_name=REGION, aws_access_key_id=KEY_ID,
                            aws_secret_access_key=KEY, config=Config(retries={"max_attempts": 1}))

    def _for_ministack(self, template: dict) -> dict:
        # Packages lie where they were uploaded, as `sam deploy` would write it.
        for name in FUNCTIONS:
            template["Resources"][name]["Properties"]["Code"] = {"S3Bucket": "uploads", "S3Key": f"{name}.zip"}
        # It knows no Contributor Insights, which the dashboard shows.
        for name in ("TenantTokens", "TenantMoney", "Dashboard"):
            del template["Resources"][name]
        # The loopback has no TLS, and with the roles MiniStack enforces the refusal of whoever comes without.
        for name in ("BucketPolicy", "JobsQueuePolicy", "DeadLetterQueuePolicy", "StreamFailuresQueuePolicy",
                     "WebhooksQueuePolicy"):
            del template["Resources"][name]
        # A parameter of type Number stays a text in it, which its event source cannot compare.
        source = template["Resources"]["JobsEventSource"]["Properties"]
        source["BatchSize"] = template["Parameters"]["QueueBatchSize"]["Default"]
        source["ScalingConfig"] = {"MaximumConcurrency": template["Parameters"]["WorkerConcurrencyMax"]["Default"]}
        # The management endpoint of AWS is a name; here it is a path of the emulator.
        text = json.dumps(template)
        there = "https://${WebSocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}/live"
        assert text.count(there) >= 2
        return json.loads(text.replace(there, f"{self.endpoint}/_aws/execute-api/${{WebSocketApi}}/live"))

    def _deploy(self) -> tuple[dict[str, str], dict[str, str]]:
        s3 = self.client("s3")
        s3.create_bucket(Bucket="uploads")
        for name, program in FUNCTIONS.items():
            s3.put_object(Bucket="uploads", Key=f"{name}.zip", Body=_package(_binary(program)))
        parameters = {
            "JwtIssuer": ISSUER, "JwtAudience": AUDIENCE, "JwksUrl": f"{self.outside.url}/jwks.json",
            "ModelUrl": f"{self.outside.url}/v1", "ModelName": "a-model",
            "ModelTimeLimitSeconds": str(MODEL_TIME_LIMIT_SECONDS),
            "Architecture": "x86_64",
            "EventStreamsMax": "5",
            "WorkerTimeoutSeconds": str(WORKER_TIMEOUT_SECONDS),
            "LogLevel": "DEBUG",
        }
        template = json.loads((ROOT / "target" / "deploy" / "translated.json").read_text())
        s3.put_object(Bucket="uploads", Key="template.json", Body=json.dumps(self._for_ministack(template)).encode())
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(
            StackName=NAME, TemplateURL=f"{self.endpoint}/uploads/template.json", Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()])
        until = time.monotonic() + 120
        while True:
            stack = cloudformation.describe_stacks(StackName=NAME)["Stacks"][0]
            if not stack["StackStatus"].endswith("IN_PROGRESS") or time.monotonic() > until:
                break
            time.sleep(0.2)
        if stack["StackStatus"] != "CREATE_COMPLETE":
            events = cloudformation.describe_stack_events(StackName=NAME)["StackEvents"]
            failed = [(event["LogicalResourceId"], event.get("ResourceStatusReason")) for event in events if "FAILED" in event["ResourceStatus"]]
            raise RuntimeError(f"the stack is {stack['StackStatus']}: {failed}")
        resources = cloudformation.describe_stack_resources(StackName=NAME)["StackResources"]
        return ({output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]},
                {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources})

    @property
    def api(self) -> str:
        """The address of the HTTP API."""
        return f"{self.endpoint}/_aws/execute-api/{self.resources['HttpApi']}/$default"

    @property
    def events(self) -> str:
        """The address where events come as a stream, as a path of the emulator."""
        host = self.outputs["EventsUrl"].split("/")[2]
        return f"{self.endpoint}/_aws/lambda-url/{host.split('.')[0]}"

    @property
    def websocket(self) -> str:
        """The address of the WebSocket API."""
        return f"ws://127.0.0.1:{self.port}/_aws/execute-api/{self.resources['WebSocketApi']}/live"

    def token(self, **changes: str) -> str:
        """A token of the test's tenant, or of another."""
        return issuer.mint(self._keys, **({"issuer": ISSUER, "audience": AUDIENCE, "tenant": TENANT} | changes))

    def stop(self) -> None:
        """Ends MiniStack and its functions, which are in its process group."""
        self.outside.stop()
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _binary(program: str) -> Path:
    """One function's binary: as cargo builds it, or as `make package` leaves it."""
    found = BINARIES / program
    return found / "bootstrap" if found.is_dir() else found


def _package(program: Path) -> bytes:
    """The zip of one function, without what only a debugger reads."""
    packed = io.BytesIO()
    with tempfile.NamedTemporaryFile() as stripped, zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        subprocess.run(["strip", "-o", stripped.name, program], check=True)
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o755 << 16
        file.writestr(entry, Path(stripped.name).read_bytes())
    return packed.getvalue()
