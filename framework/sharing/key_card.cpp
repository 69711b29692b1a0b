#include "framework/sharing/key_card.h"

#include <fmt/format.h>

#include <vector>

#include "framework/sharing/hash.h"
#include "framework/sharing/lines.h"
#include "framework/sharing/names.h"

namespace attnlab::sharing {
namespace {

constexpr const char* kItself = "signed by the key itself";

std::string first_lines(const std::string& lab, const PublicKey& key) {
  return fmt::format("untrusted comment: attnlab key of {}\n{}\n", lab, key.base64());
}

std::string statement_of(const KeyCard& card) {
  return fmt::format("attnlab-key lab:{} created:{} expires:{}", card.lab, card.created,
                     card.expires);
}

/// What stands behind "NAME:" in a line of words.
std::string word_of(std::string_view line, std::string_view name) {
  const std::string mark = fmt::format(" {}:", name);
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) throw BundleError(fmt::format("'{}' is missing", name));
  const std::string_view rest = line.substr(at + mark.size());
  return std::string(rest.substr(0, rest.find(' ')));
}

void check_day(const std::string& date) {
  try {
    check_date(date, "a key's date");
  } catch (const ConfigError& error) {
    throw BundleError(error.what());
  }
}

}  // namespace

std::string write_key_card(const KeyCard& card, const SecretKey& key) {
  const std::string lines = first_lines(card.lab, key.public_key());
  return lines + key.sign(lines, kItself, statement_of(card));
}

KeyCard parse_key_card(const std::string& text) {
  start_sodium();
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines.size() != 6) {
    throw BundleError(fmt::format("is not a key of a lab: {} lines, expected 6", lines.size()));
  }
  KeyCard card;
  card.key = parse_public_key(lines[1]);
  const std::size_t size = lines[0].size() + lines[1].size() + 2;
  const Signature signature = parse_signature(std::string_view(text).substr(size));
  card.lab = word_of(signature.trusted_comment, "lab");
  card.created = word_of(signature.trusted_comment, "created");
  card.expires = word_of(signature.trusted_comment, "expires");
  check_name(card.lab, "the lab");
  check_day(card.created);
  if (card.expires != kNever) check_day(card.expires);
  const std::string expected = first_lines(card.lab, card.key);
  if (text.substr(0, size) != expected || signature.untrusted_comment != kItself ||
      signature.trusted_comment != statement_of(card) ||
      !is_signed_by(signature, card.key, expected)) {
    throw BundleError("is not a key of a lab: it is not signed by itself");
  }
  return card;
}

std::string write_revocation(const std::string& lab, const SecretKey& key) {
  const std::string statement = fmt::format("attnlab-revocation lab:{} key:{} date:{}\n", lab,
                                            key.public_key().id_text(), date_in(0));
  return statement + key.sign(statement, "revocation of a key of " + lab, "attnlab-revocation");
}

Revocation parse_revocation(const std::string& text) {
  start_sodium();
  const std::size_t end = text.find('\n');
  if (!text.starts_with("attnlab-revocation ") || end == std::string::npos) {
    throw BundleError("is not a revocation of a key");
  }
  Revocation parsed;
  parsed.text = text;
  parsed.statement = text.substr(0, end + 1);
  const std::string_view line = std::string_view(text).substr(0, end);
  parsed.lab = word_of(line, "lab");
  parsed.key_id = word_of(line, "key");
  parsed.date = word_of(line, "date");
  check_name(parsed.lab, "the lab");
  check_day(parsed.date);
  parsed.signature = parse_signature(std::string_view(text).substr(end + 1));
  if (key_text(parsed.signature.key) != parsed.key_id) {
    throw BundleError("is not a revocation: another key signed it");
  }
  return parsed;
}

}  // namespace attnlab::sharing
