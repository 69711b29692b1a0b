// attnlab plugin install|upgrade|rebuild: bundles become plugins that the program finds.
#include <fmt/format.h>

#include <functional>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "runner/process.h"
#include "runner/sharing/bundle_source.h"
#include "runner/sharing/sharing.h"
#include "runner/sharing/workshop.h"

namespace attnlab {
namespace {

void add_options(Usage& usage) {
  usage.options.add_options()("yes,y", "answer every question with yes")(
      "no-kit", "skip the conformance kit")(
      "from-source", "build from source, even if the bundle has a matching binary")(
      "allow-downgrade", "accept an older version, or another bundle of the same version");
  add_workshop_options(usage);
}

void say(const std::string& line) { std::cerr << printable(line) << "\n"; }

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
                           one.python()            ? "Python"
                           : one.built == "binary" ? "its binary"
                                                   : "built from source",
                           one.key.empty() ? "unsigned" : "signed by " + one.key);
}

/// Installs; a signal ends it with nothing left behind.
sharing::Installed without_leftovers(const std::function<sharing::Installed()>& act) {
  const SignalsNoted noted;
  try {
    return act();
  } catch (const Interrupted&) {
    say("interrupted; nothing was installed, and nothing is left behind");
    throw;
  }
}

/// Whether its library is one of this attnlab; one that cannot be read is not.
bool fits(const sharing::Installed& one, const Stamp& host) {
  try {
    return stamp_differences(host, read_manifest(one.library())).empty();
  } catch (const Error&) {
    return false;
  }
}

/// What a command that installs works with.
struct Installing {
  explicit Installing(const Arguments& given)
      : arguments(given),
        places(sharing::Places::of_this_user()),
        keys(places.keys()),
        store(places),
        workshop(workshop_options(given)),
        tools(workshop.tools()),
        options(options_for(given, places)),
        finder(places, keys, options.ask, options.policy, workshop_options(given)) {}

  void take(const std::string& word) {
    const BundleSource found = finder.find(word);
    sharing::InstallOptions expecting = options;
    expecting.expected_sha256 = found.sha256;
    expecting.expected_id = found.id;
    expecting.expected_version = found.version;
    if (found.agreed) expecting.policy.unsigned_bundles = sharing::Rule::allow;
    report(without_leftovers(
        [&] { return install(found.bytes, found.origin, store, keys, tools, expecting); }));
  }

  const Arguments& arguments;
  sharing::Places places;
  sharing::Keyring keys;
  sharing::Store store;
  Workshop workshop;
  sharing::InstallTools tools;
  sharing::InstallOptions options;
  BundleFinder finder;
};

/// The plugins that are named, or all.
std::vector<sharing::Installed> named(const Words& words, const sharing::Store& store) {
  if (words.empty()) return store.active();
  std::vector<sharing::Installed> all;
  for (const std::string& word : words) all.push_back(store.need(word));
  return all;
}

/// Does something with each; one that fails does not keep it from the others.
int with_each(const std::vector<sharing::Installed>& all, const std::string& command,
              const std::function<void(const sharing::Installed&)>& act) {
  bool failed = false;
  for (const sharing::Installed& one : all) {
    try {
      act(one);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      std::cerr << "attnlab plugin " << command << ": " << message_text(error.what()) << "\n";
      failed = true;
    }
  }
  return failed ? kRunFailed : kDone;
}

}  // namespace

int plugin_install_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin install FILE|FOLDER|URL|NAME ... [options]";
  usage.about =
      "Installs plugins for this user, below ~/.local/share/attnlab/plugins. A FILE is a bundle\n"
      "(attnlab plugin pack); a FOLDER holds bundles or a plugin's source; a URL names a\n"
      "bundle; a NAME (acme/sharp) is looked up in the indices that you have added (attnlab\n"
      "index add). The signature is checked, a binary with a matching stamp is taken or the\n"
      "source is built, the conformance kit runs, and the bundle's expected numbers are\n"
      "compared; then one rename puts the plugin into use. A failure leaves only a log behind.\n"
      "A plugin is code that runs with your rights: docs/sharing.md says what is checked and\n"
      "what is not.";
  add_options(usage);
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Installing installing(arguments);
  for (const std::string& word : arguments.words) installing.take(word);
  return kDone;
}

int plugin_upgrade_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin upgrade [NAME ...] [options]";
  usage.about =
      "Installs newer versions of the named plugins, or of all installed ones, from the indices\n"
      "that you have added. Older versions are refused.";
  add_options(usage);
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Installing installing(arguments);
  return with_each(
      named(arguments.words, installing.store), "upgrade", [&](const sharing::Installed& one) {
        const std::string id = one.id.str();
        const std::string version = installing.finder.newest_version(id);
        if (version.empty()) {
          std::cout << one.label() << ": is in no index\n";
        } else if (one.problem.empty() && sharing::compare_versions(version, one.version) <= 0) {
          std::cout << one.label() << ": is the newest\n";
        } else {
          installing.take(id + "@" + version);
        }
      });
}

int plugin_rebuild_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin rebuild [NAME ...] [options]";
  usage.about =
      "Builds installed plugins again from their bundles' source: the named ones, or all whose\n"
      "stamp this attnlab refuses, for example after an update of attnlab or LibTorch.";
  add_options(usage);
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Installing installing(arguments);
  std::vector<sharing::Installed> all = named(arguments.words, installing.store);
  if (arguments.words.empty()) {
    std::erase_if(all, [&](const sharing::Installed& one) {
      return one.problem.empty() && fits(one, installing.tools.host);
    });
  }
  if (all.empty()) std::cout << "nothing to rebuild: every installed plugin fits this attnlab\n";
  return with_each(all, "rebuild", [&](const sharing::Installed& one) {
    report(without_leftovers([&] {
      return rebuild(one, installing.store, installing.keys, installing.tools, installing.options);
    }));
  });
}

}  // namespace attnlab
