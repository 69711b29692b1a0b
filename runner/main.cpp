// attnlab: the program. Subcommands one file each; no science here.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <string>

#include "framework/base/error.h"
#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/base/limits.h"
#include "framework/base/printable_stream.h"
#include "framework/base/text.h"
#include "runner/commands.h"
#include "runner/fork_server.h"
#include "runner/load_engine.h"
#include "runner/sharing_command.h"

namespace attnlab {
namespace {

constexpr const char* kHelp = R"(attnlab: compare attention mechanisms across domains

  attnlab list [attention|model|task|dataset]   what plugins there are
  attnlab describe ID                           what a plugin is, takes and gives
  attnlab validate FILE... [key=value ...]      check experiments and suites without running them
  attnlab config show FILE [key=value ...]      an experiment with everything filled in
  attnlab config explain FILE [KEY]             every place that set or changed a value
  attnlab config diff A B                       what differs between two configurations
  attnlab config schema [KIND]                  a JSON Schema of experiments, for editors
  attnlab run EXPERIMENT [key=value ...]        train and evaluate
  attnlab suite SUITE [key=value ...]           run a comparison and print its table
  attnlab sweep EXPERIMENT [key=a,b ...]        run an experiment over a grid of values
  attnlab status DIR                            where the runs of a suite or sweep stand
  attnlab compare DIR...                        do attentions differ: means, paired tests, ranks
  attnlab report DIR...                         a page, a paper's table or records of runs
  attnlab page DIR...                           each attention in every domain, on one page
  attnlab card ID [--runs DIR]                  a model card: equation, traits, conformance, results
  attnlab runs store DIR... --to DIR            finished runs as small files that suites use again
  attnlab eval RUN_DIR [ENTRY ...]              evaluate a finished run, on other data too
  attnlab sample RUN_DIR [--prompt TEXT]        text of a trained language model
  attnlab detect RUN_DIR --image FILE ...       boxes of a trained detector on pictures of yours
  attnlab show RUN_DIR [--examples N]           test examples with answers, for the report
  attnlab bench attention [ID ...]              time and memory, as ratios to standard attention
  attnlab study snr [key=value ...]             signal and noise of attention, by closed form too
  attnlab attention apply --use ID ...          compute one attention on the tensors of a file
  attnlab data show EXPERIMENT [key=value ...]  a picture of what the model sees, with labels
  attnlab plugin test ID|PATH [key=value ...]   check a plugin against its contract
  attnlab new KIND NAME [--lab LAB]             a folder to begin a plugin of your own
  attnlab plugin pack FOLDER                    one file that another lab can install
  attnlab plugin install FILE|FOLDER|URL|NAME   install plugins of other labs, checked
  attnlab plugin upgrade [NAME ...]             newer versions from the indices added
  attnlab plugin remove NAME ...                remove installed plugins
  attnlab plugin rollback NAME ...              go back to the version before
  attnlab plugin verify [NAME|FILE ...]         are installed plugins as they were installed?
  attnlab plugin rebuild [NAME ...]             build anew what an update made unfit
  attnlab plugin search WORD                    find bundles in the indices added
  attnlab key new LAB                           a key that signs what your lab publishes
  attnlab key add FILE|KEY                      know another lab's key
  attnlab key list                              keys that are known here
  attnlab key revoke KEY-ID|FILE                trust a key no more
  attnlab index make FOLDER                     publish a folder of bundles
  attnlab index add URL|FOLDER                  search and install from a lab's index
  attnlab index update                          take newer copies of all indices
  attnlab index list                            indices that were added
  attnlab index remove URL|FOLDER               forget an index
  attnlab suite pack DIR                        results in one file that another lab can repeat
  attnlab reproduce FILE                        run another lab's results here, and compare
  attnlab cite DIR                              BibTeX of all that runs used
  attnlab completion bash|zsh|fish              a script that completes commands in that shell

`attnlab COMMAND --help` tells more. Exit codes: 0 done, 1 a run failed, 2 usage or configuration,
3 not complete (suite, reproduce, runs store), 4 data missing (run --dry-run, probe),
5 too little memory or too few threads to start, 130 interrupted.
)";

}  // namespace

const char* program_help() { return kHelp; }

int dispatch(const std::string& command, const Words& rest) {
  using Command = std::function<int(const Words&)>;
  const std::map<std::string, Command> commands = {
      {"list", list_command},
      {"describe", describe_command},
      {"validate", validate_command},
      {"config", config_command},
      {"completion", completion_command},
      {"suite", suite_command},
      {"sweep", sweep_command},
      {"status", status_command},
      {"compare", compare_command},
      {"report", report_command},
      {"page", page_command},
      {"card", card_command},
      {"runs", runs_command},
      {"attention", attention_command},
      {"data", data_command},
      {"plugin", plugin_command},
      {"slurm-task", slurm_task_command},
      {"new", new_command},
      {"cite", cite_command},
      {"key", [](const Words& words) { return sharing_command("key", words); }},
      {"index", [](const Words& words) { return sharing_command("index", words); }},
      {"reproduce", [](const Words& words) { return sharing_command("reproduce", words); }},
      {"run", [](const Words& words) { return engine_command("run", words); }},
      {"eval", [](const Words& words) { return engine_command("eval", words); }},
      {"sample", [](const Words& words) { return engine_command("sample", words); }},
      {"detect", [](const Words& words) { return engine_command("detect", words); }},
      {"show", [](const Words& words) { return engine_command("show", words); }},
      {"probe", [](const Words& words) { return engine_command("probe", words); }},
      {"match", [](const Words& words) { return engine_command("match", words); }},
      {"bench", [](const Words& words) { return engine_command("bench", words); }},
      {"study", [](const Words& words) { return engine_command("study", words); }},
  };
  const auto found = commands.find(command);
  if (found != commands.end()) return found->second(rest);
  std::vector<std::string> names;
  for (const auto& [name, unused] : commands) names.push_back(name);
  throw ConfigError(fmt::format("unknown command '{}'{}", command, suggestion(command, names)));
}

namespace {

void complain(const std::string& command, const std::string& what) {
  std::cerr << fmt::format("attnlab {}: {}\n", one_line(command), message_text(what));
}

int answer(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::cout << kHelp;
    return words.empty() ? kUsage : kDone;
  }
  if (words[0] == "--version") {
    std::cout << "attnlab " ATTNLAB_VERSION "\n";
    return kDone;
  }
  try {
    return dispatch(words[0], Words(words.begin() + 1, words.end()));
  } catch (const Interrupted&) {  // it was asked for, and is no error
    return kInterrupted;
  } catch (const LimitError& error) {
    complain(words[0], error.what());
    return kNoRoom;
  } catch (const Error& error) {
    complain(words[0], error.what());
    return kUsage;
  } catch (const std::exception& error) {
    complain(words[0], text_of(error));
  } catch (...) {  // of a plugin
    complain(words[0], kNoException);
  }
  return kRunFailed;
}

}  // namespace

int run_program(const Words& words) {
  // Whatever a command prints: names of files, plugins' words and stored logs are foreign.
  const PrintableStream out(std::cout), err(std::cerr);
  const int code = answer(words);
  // What is printed may wait in a buffer until here: only now is it known to have arrived.
  // (Progress empties the buffer with each line; then only the error that it met is left.)
  const bool flushed = std::cout.flush().good() && std::fflush(stdout) == 0;
  const bool written = flushed && std::ferror(stdout) == 0;
  if (written || code != kDone) return code;
  std::cerr
      << "attnlab: standard output: cannot write (a full disk, or closed?); what it was to hold is "
         "lost\n";
  return kRunFailed;
}

}  // namespace attnlab

namespace {

std::terminate_handler usual_end = std::abort;

/// In the place of standard streams that are closed: the next file that is opened would take their
/// number, and what is printed would go into it. What is written here fails.
void open_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    if (::open("/dev/null", O_RDONLY) != stream) std::abort();  // the lowest free number is taken
  }
}

/// With the limits, where there is memory enough to find them out.
void say_no_memory(const std::bad_alloc& error) {
  std::string text;
  const char* words = "attnlab: out of memory; raise the limit (ulimit -v, ulimit -d)\n";
  try {
    text = "attnlab: " + attnlab::text_of(error) + "\n";
    words = text.c_str();
  } catch (const std::bad_alloc&) {  // the words above, then
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, words, std::strlen(words));
}

/// Memory may also run out where C++ allows no exception: in a destructor, or in a library that is
/// being loaded. That ends the program, too, but with words.
[[noreturn]] void end_with_words() {
  if (std::current_exception() != nullptr) {
    try {
      throw;
    } catch (const std::bad_alloc& error) {
      say_no_memory(error);
      ::_exit(attnlab::kNoRoom);
    } catch (...) {
      usual_end();
    }
  }
  usual_end();
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  open_closed_streams();
  usual_end = std::set_terminate(end_with_words);
  // A reader that left, and a limit of file sizes, are errors of writing, not the end of a run.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  attnlab::Words words(argv + 1, argv + argc);
  if (attnlab::is_fork_server(words)) {
    words = attnlab::words_of_job({argv, static_cast<std::size_t>(argc)}, attnlab::load_engine);
  }
  return attnlab::run_program(words);
}
