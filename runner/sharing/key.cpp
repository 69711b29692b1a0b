// attnlab key new|add|list|revoke: a lab's own keys, and those of labs that it knows.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/sharing/lines.h"
#include "runner/sharing/sharing.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

constexpr const char* kHelp = R"(usage: attnlab key COMMAND

  attnlab key new LAB             make a key that signs what LAB publishes
  attnlab key add FILE|KEY        trust another lab's key
  attnlab key list                keys that are known here
  attnlab key revoke KEY-ID|FILE  stop trusting a key

`attnlab key COMMAND --help` tells more.
)";

sharing::Keyring keyring() { return sharing::Keyring(sharing::Places::of_this_user().keys()); }

std::string expiry_of(const Arguments& arguments, const std::string& otherwise) {
  std::string date = arguments.text("expires", otherwise);
  if (date == sharing::kNever) return date;
  sharing::check_date(date, "--expires");
  if (date >= sharing::date_in(0)) return date;
  throw ConfigError(fmt::format("--expires: {} is past; name the key's last day", date));
}

int make_key(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab key new LAB [--expires DATE|never]";
  usage.about =
      "Makes a key pair for LAB, the part before the slash of its plugins' ids. The secret key\n"
      "stays in ~/.config/attnlab/keys/LAB.key; LAB.pub beside it is for others (attnlab key\n"
      "add LAB.pub). Both are minisign's formats. A password protects the secret key: it is\n"
      "asked for on a terminal, or taken from $ATTNLAB_KEY_PASSWORD; without a password the key\n"
      "is stored unprotected.";
  usage.options.add_options()("expires", po::value<std::string>()->value_name("DATE"),
                              "the last day on which the key is valid; default: in two years");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  constexpr int kTwoYears = 730;
  const std::string expires = expiry_of(arguments, sharing::date_in(kTwoYears));
  const std::string lab = arguments.words[0];
  const std::string password = new_password();
  const sharing::KeyCard card = keyring().make(lab, expires, password);
  if (password.empty()) std::cerr << "the secret key has no password: who can read it can sign\n";
  const std::string file = sharing::Places::of_this_user().keys() + "/" + lab + ".pub";
  std::cout << fmt::format("key {} of lab '{}', expires: {}\n{}\npublish {}\n", card.key.id_text(),
                           lab, expires, card.key.base64(), file);
  return kDone;
}

/// A lab's own file, a public key of minisign, or its 56 characters.
sharing::KeyCard card_from(const Arguments& arguments) {
  const std::string word = arguments.words[0], lab = arguments.text("lab", "");
  std::error_code ignored;
  std::string text = word;
  if (std::filesystem::exists(word, ignored)) {
    text = read_text(word);
    try {
      text = std::string(sharing::unmarked(text));
      const std::size_t lines = sharing::lines_of(text).size();
      if (lines == 6) {
        sharing::KeyCard card = sharing::parse_key_card(text);
        if (lab.empty() || lab == card.lab) return card;
        throw sharing::TrustError(fmt::format("is a key of lab '{}', not of '{}'", card.lab, lab));
      }
      if (lines == 2) text = std::string(sharing::lines_of(text)[1]);
    } catch (const sharing::BundleError& damage) {
      throw sharing::BundleError(fmt::format("{}: {}", word, damage.what()));
    }
  }
  if (lab.empty()) {
    throw ConfigError("--lab is missing: this key does not say which lab's it is");
  }
  sharing::check_name(lab, "--lab");
  try {
    return {lab, sharing::parse_public_key(trimmed(text)), sharing::date_in(0),
            expiry_of(arguments, sharing::kNever)};
  } catch (const sharing::BundleError& damage) {
    throw sharing::BundleError(fmt::format("{}: {}", one_line(word, 100), damage.what()));
  }
}

int add_key(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab key add FILE|KEY [--lab LAB] [--expires DATE]";
  usage.about =
      "Trusts a lab's key from now on, beside the lab's other keys. FILE is the lab's LAB.pub,\n"
      "or a public key of minisign; KEY is its 56 characters, RW... Get the key in a way that\n"
      "you trust.";
  usage.options.add_options()("lab", po::value<std::string>()->value_name("LAB"),
                              "the key's lab, if the file does not say so")(
      "expires", po::value<std::string>()->value_name("DATE"),
      "the last day on which the key is valid, if the file does not say so");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::KeyCard card = card_from(arguments);
  keyring().add(card, "added");
  std::cout << fmt::format("key {} of lab '{}' is known\n", card.key.id_text(), card.lab);
  return kDone;
}

int list_keys(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab key list";
  usage.about = "Lists the keys that are known here, and whether this machine has the secret part.";
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Keyring keys = keyring();
  if (keys.keys().empty()) std::cout << "no key is known\n";
  for (const sharing::KnownKey& key : keys.keys()) {
    const std::string objection = key.objection();
    std::cout << fmt::format("{:<20} {}  {:<10} since {}, expires: {}{}\n", key.lab,
                             key.key.id_text(), key.how, key.added, key.expires,
                             objection.empty() ? "" : "  NOT TRUSTED: it " + objection);
  }
  return kDone;
}

sharing::Revocation revocation_in(const std::string& file) {
  try {
    return sharing::parse_revocation(std::string(sharing::unmarked(read_text(file))));
  } catch (const sharing::BundleError& damage) {
    throw sharing::BundleError(fmt::format("{}: {}", file, damage.what()));
  }
}

/// Takes a revocation in where its key is not known and signed what is installed: what is loaded is
/// looked up among the known keys alone.
bool take_of_installed(const sharing::Revocation& revocation, sharing::Keyring& keys) {
  bool taken = false;
  for (const auto& one : sharing::Store(sharing::Places::of_this_user()).active()) {
    if (taken || one.key != revocation.key_id) continue;
    try {
      const sharing::Bundle bundle = sharing::read_bundle(one.bundle_file());
      taken = bundle.signer && keys.take_of_installed(revocation, *bundle.signer);
    } catch (const Error&) {  // damaged or gone, which attnlab plugin verify says
    }
  }
  return taken;
}

/// What a lab publishes of its own key.
std::string revocation_of(const sharing::Keyring& keys, const std::string& lab) {
  constexpr const char* kRemedy =
      "; where it is lost, --here-only trusts it no more on this machine";
  try {
    const std::string password =
        keys.secret_is_encrypted(lab) ? password_for("password of the key") : "";
    return write_revocation(lab, keys.secret_to_revoke(lab, password));
  } catch (const sharing::BundleError& damage) {
    throw sharing::BundleError(damage.what() + std::string(kRemedy));
  } catch (const sharing::TrustError& refusal) {
    throw sharing::TrustError(refusal.what() + std::string(kRemedy));
  } catch (const FileError& closed) {
    throw FileError(closed.what() + std::string(kRemedy));
  }
}

int revoke_key(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab key revoke KEY-ID|FILE [--out FILE] [--here-only]";
  usage.about =
      "Stops trusting a key, given by its number (attnlab key list) or by the revocation FILE\n"
      "that its lab published. For your own lab's key, this writes a revocation for others,\n"
      "signed by the key itself: put it beside the lab's bundles; attnlab index make includes\n"
      "it.";
  usage.options.add_options()("out", po::value<std::string>()->value_name("FILE"),
                              "file for the revocation; default: LAB-KEY-ID.revoked")(
      "here-only", "write no revocation: for an own key whose file or password is lost");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  sharing::Keyring keys = keyring();
  const std::string word = arguments.words[0];
  std::error_code ignored;
  if (std::filesystem::exists(word, ignored)) {
    const sharing::Revocation revocation = revocation_in(word);
    const auto is_its_key = [&](const sharing::KnownKey& key) {
      return key.lab == revocation.lab && key.key.id_text() == revocation.key_id;
    };
    const bool was_known = std::any_of(keys.keys().begin(), keys.keys().end(), is_its_key);
    const bool trusted = was_known ? keys.take(revocation) : take_of_installed(revocation, keys);
    const bool known = was_known || trusted;
    keys.keep(revocation);
    std::cout << (trusted ? "revoked\n"
                  : known ? "nothing changed: the key was revoked already\n"
                          : "the key is not known here; it will not be trusted when it is met\n");
    return kDone;
  }
  for (const sharing::KnownKey& key : keys.keys()) {
    if (key.key.id_text() != word || !keys.has_secret(key.lab)) continue;
    const std::string lab = key.lab;
    if (arguments.has("here-only")) {
      keys.revoke(word);  // first: LAB.pub may be damaged
      if (keys.own_key_id(lab) == word) keys.retire(lab);
      std::cout << "revoked here; there is no file that tells others: tell them by another way\n";
      return kDone;
    }
    if (keys.own_key_id(lab) != word) continue;
    const std::string path = arguments.text("out", fmt::format("{}-{}.revoked", lab, word));
    write_file(path, revocation_of(keys, lab));
    std::cout << "publish " << path << "\n";
    keys.revoke(word);
    keys.retire(lab);
    std::cout << "revoked\n";
    return kDone;
  }
  keys.revoke(word);
  std::cout << "revoked\n";
  return kDone;
}

}  // namespace

int key_command(const Words& words) {
  return run_subcommand(
      "key", kHelp, words,
      {{"new", make_key}, {"add", add_key}, {"list", list_keys}, {"revoke", revoke_key}});
}

}  // namespace attnlab
