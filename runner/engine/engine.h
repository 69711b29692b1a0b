// The heavy subcommands: those that run plugin code.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "framework/train/run.h"
#include "runner/arguments.h"

namespace attnlab {

int run_command(const Words& words);
int eval_command(const Words& words);
int sample_command(const Words& words);
int detect_command(const Words& words);
int segment_command(const Words& words);
int show_command(const Words& words);
int probe_command(const Words& words);
int match_command(const Words& words);
int doctor_engine_command(const Words& words);
int summary_command(const Words& words);
int attention_apply_command(const Words& words);
int plugin_check_command(const Words& words);
int bench_command(const Words& words);
int study_command(const Words& words);
int data_show_command(const Words& words);

using EngineCommands = std::map<std::string, int (*)(const Words&)>;
/// Takes signals from here on, and runs the command of that name.
int run_engine_command(const EngineCommands& commands, const std::string& command,
                       const Words& words);

/// Set by SIGINT, SIGTERM and SIGHUP; a second signal ends the process at once.
const std::atomic<bool>& stop_requested();

}  // namespace attnlab
