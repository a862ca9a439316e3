//! PowerShell, as far as a single line goes.

use crate::Taint;
use crate::data::Data;
use crate::trace::Fact;
use crate::walk::Shell;
use crate::word::{HOLE, has_hole};

impl Shell<'_> {
    pub(super) fn powershell(&mut self, args: &[&str], stdin: &Data, process: usize) {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            let lower = arg.to_ascii_lowercase();
            let Some(name) = lower.strip_prefix(['-', '/']).map(|name| name.trim_start_matches('-')) else {
                if let Some(data) = Some(self.content_of(arg)).filter(|data| data.taint.has(Taint::NET)) {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: data.taint });
                }
                let text = args.get(at - 1..).unwrap_or_default().join(" ");
                return self.power_code(&text, process);
            };
            let is = |full: &str| !name.is_empty() && full.starts_with(name);
            if name.starts_with('e') && (is("encodedcommand") || name == "ec" || name == "enc") {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::DECODED });
                if let Some(text) = args.get(at).and_then(|text| utf16_base64(text)) {
                    self.power_code(&text, process);
                }
                return;
            }
            if is("command") && name.starts_with('c') || name == "commandwithargs" {
                let text = args.get(at..).unwrap_or_default().join(" ");
                if has_hole(&text) && text.chars().all(|c| c == HOLE) {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
                }
                if text == "-" {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: stdin.taint });
                }
                return self.power_code(&text, process);
            }
            if is("file") && name.starts_with('f') {
                if let Some(script) = args.get(at) {
                    let script = (*script).to_owned();
                    self.script_argument("powershell", &script, process);
                }
                return;
            }
            if [
                "executionpolicy",
                "ex",
                "ep",
                "windowstyle",
                "w",
                "version",
                "inputformat",
                "outputformat",
                "workingdirectory",
                "configurationname",
            ]
            .contains(&name)
            {
                at += 1;
            }
        }
    }

    pub(super) fn power_code(&mut self, text: &str, process: usize) {
        let lower = text.to_ascii_lowercase();
        let evaluates = ["iex", "invoke-expression", "scriptblock", "invoke-command"]
            .iter()
            .any(|word| lower.contains(word));
        let fetches = [
            "downloadstring",
            "downloadfile",
            "invoke-webrequest",
            "iwr",
            "irm",
            "invoke-restmethod",
            "net.webclient",
            "curl ",
            "wget ",
        ]
        .iter()
        .any(|word| lower.contains(word));
        if evaluates && fetches {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::NET });
        }
        if lower.contains("frombase64string") && evaluates {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::DECODED });
        }
        if lower.contains("net.sockets.tcpclient") && (lower.contains("getstream") || evaluates) {
            self.trace.facts.push(Fact::NetworkShell { process });
        }
        let text = crate::windows::from_powershell(text, self.place);
        if text.contains("]::") {
            self.code(&text, super::Languages::built_in().any(), process, 0);
        }
        self.pushed_code(&text);
    }

    fn pushed_code(&mut self, text: &str) {
        // The pipeline syntax of PowerShell is near enough for finding its commands.
        self.via.push("powershell".into());
        let text = text.trim().trim_matches(['"', '\'', '&', '{', '}']).to_owned();
        self.in_subshell(|shell| shell.run_text(&text, &Data::empty()));
        self.via.pop();
    }
}

/// Decodes what PowerShell takes as an encoded command.
fn utf16_base64(text: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .filter_map(|pair| Some(u16::from_le_bytes([*pair.first()?, *pair.get(1)?])))
        .collect();
    String::from_utf16(&units).ok()
}
