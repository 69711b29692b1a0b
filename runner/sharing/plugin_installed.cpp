// attnlab plugin remove|verify|rollback and list --installed: what is installed.
#include <fmt/format.h>

#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
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

void say(const std::string& line) { std::cerr << printable(line) << "\n"; }

sharing::Store store_of_this_user() { return sharing::Store(sharing::Places::of_this_user()); }

std::vector<sharing::Installed> named(const Words& words, const sharing::Store& store) {
  if (words.empty()) return store.active();
  std::vector<sharing::Installed> all;
  for (const std::string& word : words) all.push_back(store.need(word));
  return all;
}

/// Why this host does not take it; empty: it does.
std::string refusal_of(const sharing::Installed& one, const Stamp& host) {
  if (!one.problem.empty()) return one.problem;
  try {
    const auto differences = stamp_differences(host, read_manifest(one.library()));
    return differences.empty()
               ? ""
               : "built for another attnlab; attnlab plugin rebuild builds it again";
  } catch (const Error& error) {
    return error.what();
  }
}

/// What its line in a list says beside its date.
std::string remarks_on(const sharing::Installed& one) {
  std::string remarks = one.kit ? "" : ", kit left out";
  if (one.for_now) {
    remarks += fmt::format(
        ", in use while attnlab reproduce runs (should that have been killed: attnlab plugin "
        "rollback {})",
        one.id.str());
  }
  return remarks;
}

}  // namespace

int plugin_remove_command(const Words& words) {
  Usage usage = usage_of("remove", "Removes installed plugins, with their earlier versions.", 1);
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Store store = store_of_this_user();
  const sharing::StoreLock lock(store.places(), say);
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
  const sharing::Keyring keys(store.places().keys());
  sharing::InstallOptions options;
  options.policy = sharing::read_policy(store.places().policy());
  options.say = say;
  for (const sharing::Installed& one : named(arguments.words, store)) {
    const sharing::Installed earlier = roll_back(one, store, keys, options);
    std::cout << fmt::format("{}: {} is in use again instead of {}\n", one.id.str(),
                             earlier.version, one.version);
  }
  return kDone;
}

namespace {

/// What is to be said of a bundle's signature, and whether that is well.
std::pair<std::string, bool> signature_of(const sharing::Bundle& bundle,
                                          const sharing::Keyring& keys) {
  const auto known = keys.keys_of(bundle.contents.id.lab);
  if (!bundle.signer) {
    if (known.empty()) return {"not signed", true};
    return {"NOT SIGNED, although lab '" + bundle.contents.id.lab + "' has a key here", false};
  }
  const sharing::KeyCard& card = *bundle.signer;
  std::string about = known.empty() ? "a key that is not known here" : "ANOTHER KEY THAN THE LAB'S";
  bool well = known.empty() && !card.expired(sharing::date_in(0));
  if (known.empty() && !well) about = "a key that expired on " + card.expires;
  const std::string revoked = keys.kept_revocation(card);
  if (!revoked.empty()) {
    well = false;
    about = "a key that was revoked on " + revoked;
  }
  for (const sharing::KnownKey& key : known) {
    if (key.key != card.key) continue;
    well = key.objection().empty();
    about = well ? "the known key" : "a key that " + key.objection();
  }
  return {fmt::format("signed by {} ({} of lab '{}')", card.key.id_text(), about, card.lab), well};
}

bool verify_file(const std::string& path, const sharing::Keyring& keys) {
  const sharing::Bundle bundle = sharing::read_bundle(path);
  const auto [text, well] = signature_of(bundle, keys);
  std::cout << fmt::format("{}: {} is whole, {}\n", path, bundle.label(), text);
  return well;
}

/// What a revocation that was kept says of a key that is not known any more; empty: nothing.
std::string kept_revocation_of(const sharing::Installed& one, const sharing::Keyring& keys) {
  if (one.key.empty()) return "";
  const sharing::Bundle bundle = sharing::read_bundle(one.bundle_file());
  const std::string date = bundle.signer ? keys.kept_revocation(*bundle.signer) : "";
  if (date.empty()) return "";
  return fmt::format(
      "its key {}, which is not known here, was revoked on {}; remove it: attnlab plugin remove {}",
      one.key, date, one.id.str());
}

/// A key that expired since is told, and is not a fault: what it signed came in while it held.
bool verify_installed(const sharing::Installed& one, const sharing::Keyring& keys,
                      const Stamp& host) {
  std::string damage = damage_of(one), note;
  for (const sharing::KnownKey& key : keys.keys()) {
    if (key.key.id_text() != one.key || key.objection().empty()) continue;
    const std::string about = fmt::format("its key {} {}", one.key, key.objection());
    if (key.revoked.empty()) {
      note = "; " + about;
    } else if (damage.empty()) {
      damage = about;
    }
  }
  if (damage.empty()) damage = kept_revocation_of(one, keys);
  if (damage.empty()) damage = refusal_of(one, host);
  std::cout << one.label() << ": " << (damage.empty() ? "sound" + note : message_text(damage))
            << "\n";
  return damage.empty();
}

}  // namespace

int plugin_verify_command(const Words& words) {
  Usage usage = usage_of(
      "verify",
      "Checks that installed plugins (the named ones, or all) are unchanged: hashes,\n"
      "signatures, keys revoked since, the stamp. A bundle's FILE is checked without being\n"
      "installed.",
      0);
  usage.synopsis = "attnlab plugin verify [NAME|FILE ...]";
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Store store = store_of_this_user();
  const sharing::Keyring keys(store.places().keys());
  bool sound = true;
  Words names;
  for (const std::string& word : arguments.words) {
    if (word.ends_with(sharing::kBundleEnding)) {
      sound = verify_file(word, keys) && sound;
    } else {
      names.push_back(word);
    }
  }
  if (!arguments.words.empty() && names.empty()) return sound ? kDone : kRunFailed;
  const Stamp host = read_stamp(Installation::of_this_program().library());
  const std::vector<sharing::Installed> all = named(names, store);
  if (all.empty()) std::cout << "no plugin is installed\n";
  for (const sharing::Installed& one : all) sound = verify_installed(one, keys, host) && sound;
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
                   {"for_now", one.for_now},
                   {"date", one.date},
                   {"library", one.library()},
                   {"refused", refused}});
    if (arguments.has("json")) continue;
    std::cout << fmt::format("{:<10} {:<32} {:<10} {:<7} {:<28} {}\n", one.kind, one.id.str(),
                             one.version, one.built,
                             one.key.empty() ? "unsigned" : "signed by " + one.key,
                             !refused.empty() ? "REFUSED: " + one_line(refused, kLongestMessageLine)
                                              : one.date + remarks_on(one));
  }
  if (arguments.has("json")) std::cout << json_text(out);
  if (out.empty() && !arguments.has("json")) std::cout << "no plugin is installed\n";
  return kDone;
}

}  // namespace attnlab
