"""An environment for Harbor without docker, and a scripted agent: for tasks of your own, on your own machine.

No sandbox: the agent's commands run as root of this machine's files under an overlay, which keeps their changes apart
and nothing else (no limit on network, processes or devices). Run only agents and tasks here that you wrote yourself.
Needs Linux and root. Used as `harbor run -e overlay:Overlay -a overlay:Scripted`, with this folder on PYTHONPATH.
"""

import asyncio
import json
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment, ExecResult

SETUP = """
mount -t tmpfs tmpfs {root} && mkdir {root}/upper {root}/work {root}/all
mount -t overlay overlay -o lowerdir=/,upperdir={root}/upper,workdir={root}/work {root}/all
mount --rbind /dev {root}/all/dev && mount -t proc proc {root}/all/proc
mkdir -p {root}/all/app {root}/all/logs/agent {root}/all/logs/verifier {root}/all/logs/artifacts
echo ready && exec sleep infinity
"""


class Overlay(BaseEnvironment):
    """This machine's files, and above them a layer in memory that a trial writes to."""

    @staticmethod
    def type():
        return "overlay"

    def _validate_definition(self):
        pass

    async def start(self, force_build):
        self.root = Path(tempfile.mkdtemp(prefix="overlay-"))
        holder = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", SETUP.format(root=self.root))
        self.holder = await asyncio.create_subprocess_exec(*holder, stdout=asyncio.subprocess.PIPE)
        if (await self.holder.stdout.readline()).strip() != b"ready":
            raise RuntimeError("no overlay could be mounted: this needs Linux and root")
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.inside = ("nsenter", "--target", children.read_text().split()[0], "--mount", "--pid")
        if (tools := self.environment_dir / "bin").is_dir():  # what the Dockerfile of the task copies
            await self.upload_dir(tools, "/usr/local/bin")

    async def stop(self, delete):
        self.holder.kill()  # and with it, by --kill-child, all that runs inside
        await self.holder.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    async def _run(self, *words, given=None, timeout=None):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self.inside, *words, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            out, err = await asyncio.wait_for(process.communicate(given), timeout)
        except TimeoutError:
            process.kill()
            raise
        return process.returncode, out, err

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        shown = {**(self._merge_env(env) or {}), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        given = [f"{name}={value}" for name, value in shown.items()]
        line = f"cd {shlex.quote(cwd or '/app')} && {command}"
        code, out, err = await self._run(
            "chroot", f"{self.root}/all", "env", *given, "bash", "-c", line, timeout=timeout_sec
        )
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=code)

    async def _copy(self, words, given=None):
        code, out, err = await self._run(*words, given=given)
        if code:
            raise RuntimeError(err.decode())
        return out

    async def upload_file(self, source_path, target_path):
        there = f"{self.root}/all{target_path}"
        mode = "755" if Path(source_path).stat().st_mode & 0o100 else "644"
        await self._copy(("install", "-D", "-m", mode, "/dev/stdin", there), Path(source_path).read_bytes())

    async def upload_dir(self, source_dir, target_dir):
        for path in Path(source_dir).rglob("*"):
            if path.is_file():
                await self.upload_file(path, f"{target_dir}/{path.relative_to(source_dir)}")

    async def download_file(self, source_path, target_path):
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        Path(target_path).write_bytes(await self._copy(("cat", f"{self.root}/all{source_path}")))

    async def download_dir(self, source_dir, target_dir):
        here = f"{self.root}/all{source_dir}"
        for name in (await self._copy(("find", here, "-type", "f", "-printf", "%P\\n"))).decode().splitlines():
            await self.download_file(f"{source_dir}/{name}", Path(target_dir) / name)


WORKED = re.compile(r"`(depot (\w+) [^`]*)` worked")
FIRST_TRY = {"pack": "--zip", "seal": "--key", "label": "--name", "route": "--via", "weigh": "--kg", "insure": "--sum"}
MOST_COMMANDS = 3


class Scripted(BaseAgent):
    """Does the steps of a depot task by its first idea, asks for --help where that fails, and stops after 3 commands.

    What its instruction and its skills say of a command that worked it uses at once: there is nothing else in it.
    """

    capabilities = AgentCapabilities(atif=True, skills=True)

    def __init__(self, *args, dollars_per_command=0.0, seconds_per_command=0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.price, self.pause = float(dollars_per_command), float(seconds_per_command)

    @staticmethod
    def name():
        return "scripted"

    def version(self):
        return "1"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        skills = f"cat {self.skills_dir}/*/SKILL.md 2>/dev/null" if self.skills_dir else "true"
        read = instruction + ((await environment.exec(skills)).stdout or "")
        known = {verb: re.findall(r"--\w+", line)[0] for line, verb in WORKED.findall(read) if "--" in line}
        self.steps = [{"step_id": 1, "source": "user", "message": instruction}]
        try:
            for verb, thing in re.findall(r"^\d+\. (\w+) (\S+)$", instruction, re.MULTILINE):
                if not await self._step(environment, verb, thing, known):
                    break
        finally:
            calls = sum(step["source"] == "agent" for step in self.steps)
            context.cost_usd = calls * self.price
            context.n_input_tokens, context.n_output_tokens = calls * 400, calls * 20
            about = {"name": self.name(), "version": self.version()}
            data = {"schema_version": "ATIF-v1.7", "session_id": self.session_id, "agent": about, "steps": self.steps}
            (self.logs_dir / "trajectory.json").write_text(json.dumps(data, indent=1))

    async def _step(self, environment, verb, thing, known):
        option = known.get(verb, FIRST_TRY[verb])
        code, _ = await self._command(environment, f"depot {verb} {option} {thing}")
        if code:
            _, said = await self._command(environment, f"depot {verb} --help")
            option = (re.findall(r"--\w+", said) or [option])[0]
            code, _ = await self._command(environment, f"depot {verb} {option} {thing}")
        return code == 0

    async def _command(self, environment, line):
        number = sum(step["source"] == "agent" for step in self.steps) + 1
        if number > MOST_COMMANDS:
            return 1, ""
        await asyncio.sleep(self.pause)
        done = await environment.exec(line)
        said = (done.stdout or "") + (done.stderr or "")
        call = {"tool_call_id": f"c{number}", "function_name": "bash", "arguments": {"command": line}}
        result = {"source_call_id": f"c{number}", "content": said, "extra": {"exit_code": done.return_code}}
        self.steps.append(
            {
                "step_id": number + 1,
                "source": "agent",
                "message": "",
                "tool_calls": [call],
                "observation": {"results": [result]},
            }
        )
        return done.return_code, said
