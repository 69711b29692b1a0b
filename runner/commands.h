// The subcommands. Each takes the words after its name and returns an exit code.
#pragma once

#include "runner/arguments.h"

namespace attnlab {

int list_command(const Words& words);
int doctor_command(const Words& words);
int describe_command(const Words& words);
int init_command(const Words& words);
int validate_command(const Words& words);
int config_command(const Words& words);
int config_diff_command(const Words& words);
int completion_command(const Words& words);
int suite_command(const Words& words);
int sweep_command(const Words& words);
int status_command(const Words& words);
int compare_command(const Words& words);
int power_command(const Words& words);
int report_command(const Words& words);
int page_command(const Words& words);
int card_command(const Words& words);
int runs_command(const Words& words);
int attention_command(const Words& words);
int data_command(const Words& words);
int plugin_command(const Words& words);
int slurm_task_command(const Words& words);

/// What `attnlab --help` prints: a line for each command, "  NAME ARGUMENTS   what it does", in
/// groups with headings.
const char* program_help();
/// Runs a command. @throws Error; ConfigError for an unknown command.
int dispatch(const std::string& command, const Words& rest);

/// `attnlab run`, in as many processes as it is to have.
int run_in_processes(const Words& words);

/// Commands that run plugin code (`run`, `eval`, `bench`, `attention apply`, `data show`): loads
/// the engine and hands over.
int engine_command(const std::string& command, const Words& words);

}  // namespace attnlab
