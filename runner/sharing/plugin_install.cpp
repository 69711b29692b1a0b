// attnlab plugin install|upgrade|rebuild: bundles become plugins that the program finds.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "runner/sharing/bundle_source.h"
#include "runner/sharing/sharing.h"
#include "runner/sharing/workshop.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

void add_options(Usage& usage) {
  usage.options.add_options()("yes,y", "answer every question with yes")(
      "no-kit", "leave the conformance kit out")(
      "from-source", "build it, although the bundle has a binary that fits")(
      "allow-downgrade", "take an older version, or another bundle of the same one")(
      "time-limit", po::value<double>()->value_name("SECONDS")->default_value(300),
      "of one check; a build has 6 times as long")(
      "jobs", po::value<std::int64_t>()->value_name("N")->default_value(0),
      "compilers and checks at a time; 0: one a core")(
      "readable", po::value<Words>()->value_name("DIR")->multitoken()->composing(),
      "folder beside the system's that the build may read");
}

void say(const std::string& line) { std::cerr << printable(line) << "\n"; }

Workshop workshop_for(const Arguments& arguments) {
  WorkshopOptions options;
  options.check_limit = arguments.options["time-limit"].as<double>();
  if (options.check_limit <= 0) throw ConfigError("--time-limit: expected seconds above 0");
  options.build_limit = 6 * options.check_limit;
  options.jobs = arguments.options["jobs"].as<std::int64_t>();
  if (arguments.has("readable")) options.readable = arguments.options["readable"].as<Words>();
  options.say = say;
  return Workshop(options);
}

sharing::InstallOptions options_for(const Arguments& arguments, const sharing::Places& places) {
  sharing::InstallOptions options;
  options.policy = sharing::read_policy(places.policy());
  options.ask = asker(arguments.has("yes"));
  options.kit = !arguments.has("no-kit");
  options.from_source = arguments.has("from-source");
  options.allow_downgrade = arguments.has("allow-downgrade");
  options.say = say;
  return options;
}

void report(const sharing::Installed& one) {
  std::cout << fmt::format("installed {} {} {} ({}, {})\n", one.kind, one.id.str(), one.version,
                           one.built == "binary" ? "its binary" : "built from source",
                           one.key.empty() ? "unsigned" : "signed by " + one.key);
}

int install_all(const Arguments& arguments) {
  const sharing::Places places = sharing::Places::of_this_user();
  sharing::Keyring keys(places.keys());
  const sharing::Store store(places);
  Workshop workshop = workshop_for(arguments);
  const sharing::InstallTools tools = workshop.tools();
  for (const std::string& word : arguments.words) {
    sharing::InstallOptions options = options_for(arguments, places);
    const BundleSource found = bundle_source(word, places, keys, options.ask, say);
    options.expected_sha256 = found.sha256;
    report(install(found.bytes, found.origin, store, keys, tools, options));
  }
  return kDone;
}

}  // namespace

int plugin_install_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin install FILE|FOLDER|URL|NAME ... [options]";
  usage.about =
      "Installs plugins for this user, below ~/.local/share/attnlab/plugins. A FILE is a bundle\n"
      "(attnlab plugin pack); a FOLDER holds bundles or a plugin's source; a URL names a bundle; "
      "a\n"
      "NAME (acme/sharp) is looked up in the indices that you have added (attnlab index add).\n"
      "The signature is checked, a binary with a fitting stamp is taken or the source built, the\n"
      "conformance kit run, and the bundle's expected numbers compared; then one rename puts it "
      "into\n"
      "use. Whatever fails leaves nothing behind but a log. A plugin is code that runs with your\n"
      "rights: docs/sharing.md says what is checked and what is not.";
  add_options(usage);
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  return install_all(arguments);
}

int plugin_upgrade_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin upgrade [NAME ...] [options]";
  usage.about =
      "Installs newer versions of installed plugins from the indices that you have added: of "
      "those\n"
      "named, or of all. Older versions are refused.";
  add_options(usage);
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Places places = sharing::Places::of_this_user();
  sharing::Keyring keys(places.keys());
  const sharing::Store store(places);
  Arguments newer = arguments;
  newer.words.clear();
  std::vector<sharing::Installed> all;
  for (const std::string& word : arguments.words) all.push_back(store.need(word));
  if (arguments.words.empty()) all = store.active();
  for (const sharing::Installed& one : all) {
    const std::string version = newest_version(one.id.str(), places, keys, say);
    const bool found = !version.empty();
    if (found && sharing::compare_versions(version, one.version) > 0) {
      newer.words.push_back(one.id.str());
    } else {
      std::cout << one.label() << (found ? ": is the newest\n" : ": is in no index\n");
    }
  }
  return install_all(newer);
}

int plugin_rebuild_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin rebuild [NAME ...] [options]";
  usage.about =
      "Builds installed plugins anew from their bundles' source: those named, or all whose stamp\n"
      "this attnlab refuses, as after an update of attnlab or LibTorch.";
  add_options(usage);
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Places places = sharing::Places::of_this_user();
  const sharing::Store store(places);
  Workshop workshop = workshop_for(arguments);
  const sharing::InstallTools tools = workshop.tools();
  const auto refused = [&](const sharing::Installed& one) {
    return !stamp_differences(tools.host, read_manifest(one.library()).stamp).empty();
  };
  std::vector<sharing::Installed> all;
  for (const std::string& word : arguments.words) all.push_back(store.need(word));
  if (arguments.words.empty()) {
    for (const sharing::Installed& one : store.active()) {
      if (refused(one)) all.push_back(one);
    }
  }
  if (all.empty()) std::cout << "nothing to rebuild: every installed plugin fits this attnlab\n";
  bool failed = false;
  for (const sharing::Installed& one : all) {
    try {
      report(rebuild(one, store, tools, options_for(arguments, places)));
    } catch (const Error& error) {  // the others are tried, too
      std::cerr << "attnlab plugin rebuild: " << printable(error.what()) << "\n";
      failed = true;
    }
  }
  return failed ? kRunFailed : kDone;
}

}  // namespace attnlab
