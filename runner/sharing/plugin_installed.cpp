// attnlab plugin remove|verify|rollback and list --installed: what is installed.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "framework/base/foreign_text.h"
#include "framework/manifest/discovery.h"
#include "runner/sharing/sharing.h"

namespace attnlab {
namespace {

Usage usage_of(const std::string& command, const std::string& about, std::size_t fewest) {
  Usage usage;
  usage.synopsis =
      fmt::format("attnlab plugin {} {}", command, fewest > 0 ? "NAME ..." : "[NAME ...]");
  usage.about = about;
  usage.fewest_words = fewest;
  usage.most_words = kAnyNumber;
  return usage;
}

sharing::Store store_of_this_user() { return sharing::Store(sharing::Places::of_this_user()); }

std::vector<sharing::Installed> named(const Words& words, const sharing::Store& store) {
  if (words.empty()) return store.active();
  std::vector<sharing::Installed> all;
  for (const std::string& word : words) all.push_back(store.need(word));
  return all;
}

/// Why this host does not take it; empty: it does.
std::string refusal_of(const sharing::Installed& one, const Stamp& host) {
  try {
    const auto differences = stamp_differences(host, read_manifest(one.library()).stamp);
    return differences.empty() ? ""
                               : "built for another attnlab; attnlab plugin rebuild builds it anew";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

int plugin_remove_command(const Words& words) {
  Usage usage = usage_of("remove", "Removes installed plugins, with their earlier versions.", 1);
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Store store = store_of_this_user();
  const sharing::StoreLock lock(store.places());
  for (const sharing::Installed& one : named(arguments.words, store)) {
    store.remove(one);
    std::cout << "removed " << one.label() << "\n";
  }
  return kDone;
}

int plugin_rollback_command(const Words& words) {
  Usage usage =
      usage_of("rollback", "Goes back to the version that was in use before the present one.", 1);
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Store store = store_of_this_user();
  for (const sharing::Installed& one : named(arguments.words, store)) {
    const sharing::Installed earlier = roll_back(one, store);
    std::cout << fmt::format("{}: {} is in use again instead of {}\n", one.id.str(),
                             earlier.version, one.version);
  }
  return kDone;
}

int plugin_verify_command(const Words& words) {
  Usage usage =
      usage_of("verify",
               "Checks installed plugins, those named or all, against what was installed:\n"
               "hashes, signatures, keys revoked or expired since, the stamp. A bundle's\n"
               "FILE can be named, too; it is checked without being installed.",
               0);
  usage.synopsis = "attnlab plugin verify [NAME|FILE ...]";
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Store store = store_of_this_user();
  const sharing::Keyring keys(store.places().keys());
  bool sound = true;
  Words names;
  for (const std::string& word : arguments.words) {
    if (!word.ends_with(sharing::kBundleEnding)) {
      names.push_back(word);
      continue;
    }
    const sharing::Bundle bundle = sharing::read_bundle(word);
    std::string of = "is whole, not signed";
    if (bundle.signer) {
      const auto known = keys.keys_of(bundle.signer->lab);
      std::string about = "a key that is not known here";
      for (const sharing::KnownKey& key : known) {
        if (key.key == bundle.signer->key) {
          about = key.objection().empty() ? "the known key" : "a key that " + key.objection();
        }
      }
      if (!known.empty() && about == "a key that is not known here") {
        about = "ANOTHER KEY THAN THE LAB'S";
      }
      if (about != "the known key") sound = sound && known.empty();
      of = fmt::format("is whole, signed by {} ({} of lab '{}')", bundle.signer->key.id_text(),
                       about, bundle.signer->lab);
    }
    std::cout << fmt::format("{}: {} {}\n", word, bundle.label(), of);
  }
  if (!arguments.words.empty() && names.empty()) return sound ? kDone : kRunFailed;
  const Stamp host = read_stamp(Installation::of_this_program().library());
  const std::vector<sharing::Installed> all = named(names, store);
  if (all.empty()) std::cout << "no plugin is installed\n";
  for (const sharing::Installed& one : all) {
    std::string damage = damage_of(one);
    for (const sharing::KnownKey& key : keys.keys()) {
      if (damage.empty() && key.key.id_text() == one.key && !key.objection().empty()) {
        damage = fmt::format("its key {} {}", one.key, key.objection());
      }
    }
    if (damage.empty()) damage = refusal_of(one, host);
    std::cout << one.label() << ": " << (damage.empty() ? "sound" : printable(damage)) << "\n";
    sound = sound && damage.empty();
  }
  return sound ? kDone : kRunFailed;
}

int list_installed_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab list --installed [--json]";
  usage.about = "Lists the plugins that attnlab plugin install put in.";
  usage.options.add_options()("json", "as JSON")("installed", "this list");
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Stamp host = read_stamp(Installation::of_this_program().library());
  const sharing::Store store = store_of_this_user();
  nlohmann::json out = nlohmann::json::array();
  for (const sharing::Installed& one : store.active()) {
    const std::string refused = refusal_of(one, host);
    out.push_back({{"id", one.id.str()},
                   {"kind", one.kind},
                   {"version", one.version},
                   {"bundle", one.bundle},
                   {"key", one.key},
                   {"built", one.built},
                   {"kit", one.kit},
                   {"date", one.date},
                   {"library", one.library()},
                   {"refused", refused}});
    if (arguments.has("json")) continue;
    std::cout << fmt::format("{:<10} {:<32} {:<10} {:<7} {:<28} {}\n", one.kind, one.id.str(),
                             one.version, one.built,
                             one.key.empty() ? "unsigned" : "signed by " + one.key,
                             !refused.empty() ? "REFUSED: " + printable(refused)
                             : one.kit        ? one.date
                                              : one.date + ", kit left out");
  }
  if (arguments.has("json")) std::cout << out.dump(2) << "\n";
  if (out.empty() && !arguments.has("json")) std::cout << "no plugin is installed\n";
  return kDone;
}

}  // namespace attnlab
