// attnlab card ID: a model card from manifest, conformance test and runs.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/manifest/python_file.h"
#include "framework/report/card.h"
#include "framework/runs/run_folder.h"
#include "runner/commands.h"
#include "runner/compare_options.h"
#include "runner/domain_page.h"
#include "runner/process.h"
#include "runner/tested_plugin.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

void declare_card(Usage& usage) {
  usage.synopsis = "attnlab card ID [--runs DIR ...] [--as LABEL] [--no-test] [-o FILE]";
  usage.about =
      "Writes a model card of an attention as Markdown: what it is, its equation, options,\n"
      "which masks and inputs it honours, the outcome of `attnlab plugin test`, and its results\n"
      "in every domain. ID is a name (quest), lab/name or a Python file (mine.py). Results come\n"
      "from runs/cross_domain, if it is there, unless --runs names other folders.";
  usage.options.add_options()("runs", po::value<Words>()->composing()->value_name("DIR"),
                              "folder with runs; may be repeated")(
      "as", po::value<std::string>()->value_name("LABEL"),
      "its label in the runs; default: its name")("no-test", "skip the conformance test")(
      "output,o", po::value<std::string>()->value_name("FILE"),
      "file to write; default: standard output");
  usage.fewest_words = usage.most_words = 1;
}

/// The test's JSON: everything that it printed.
std::string conformance_of(const std::string& id) {
  const SignalsNoted noted;
  const ScratchFolder scratch;
  std::string text;
  const ProcessResult result = run_self({"plugin", "test", id, "--json"}, scratch.file("log.txt"),
                                        [&](const std::string& line) { text += line + "\n"; });
  if (interrupted()) {
    std::cerr << "interrupted; no card was written\n";
    throw Interrupted();
  }
  if (result.signal == 0 && (result.ok() || result.exit_code == kRunFailed)) return text;
  throw Error(fmt::format("the conformance test of {} did not end: {}", id,
                          log_tail(scratch.file("log.txt"), 5)));
}

/// What `attnlab plugin test` calls it: a file that nobody installed by its path.
std::string tested_name(const Candidate& plugin) {
  const bool by_file = is_python_name(plugin.path) && plugin.manifest->python_class.empty();
  return by_file ? plugin.path : plugin.manifest->id;
}

Words folders_of(const Arguments& arguments) {
  if (arguments.has("runs")) return arguments.options["runs"].as<Words>();
  std::error_code error;
  const std::string usual = fmt::format("{}/cross_domain", kRunsFolder);
  return fs::is_directory(usual, error) ? Words{usual} : Words{};
}

const Candidate& attention_called(const Catalogue& catalogue, const std::string& name) {
  const Candidate& plugin = find_plugin(catalogue, name);
  if (plugin.manifest->kind == Kind::attention) return plugin;
  throw ConfigError(
      fmt::format("card: '{}' is a {}; cards are of attentions (attnlab list "
                  "attention shows them)",
                  name, name_of(plugin.manifest->kind)));
}

}  // namespace

int card_command(const Words& words) {
  Usage usage;
  declare_card(usage);
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Catalogue catalogue = Catalogue::of_this_program();
  const Candidate& plugin = attention_called(catalogue, arguments.words[0]);
  Card card;
  card.manifest = &*plugin.manifest;
  card.file = fs::path(plain_file(plugin.path)).filename().string();
  card.label = arguments.text("as", plugin.manifest->name);
  card.date = now_in_utc();
  card.command = "attnlab card";
  for (const std::string& word : words) card.command += " " + shell_word(word);
  const Words folders = folders_of(arguments);
  if (!folders.empty()) {
    const RunCollection collection = find_runs(folders);
    card.runs = join(folders, ", ");
    card.page = build_domain_page(
        collection, compare_options(compare_section(collection, arguments)), "", &catalogue);
    static_cast<void>(card.page->row(card.label));  // a wrong label is said before the test
  }
  if (!arguments.has("no-test")) card.conformance = conformance_of(tested_name(plugin));
  const std::string text = printable(card_markdown(card));
  const std::string output = arguments.text("output", "");
  if (output.empty()) {
    std::cout << text;
  } else {
    write_file(output, text);
    std::cout << output << "\n";
  }
  return kDone;
}

}  // namespace attnlab
