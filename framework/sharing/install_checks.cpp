#include "framework/sharing/install_checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnlab::sharing {

std::string signer_of(const Bundle& bundle) {
  return bundle.signer ? bundle.signer->key.id_text() : "";
}

void check_expected(const Bundle& bundle, const InstallOptions& options) {
  const auto check = [&](const std::string& what, const std::string& found,
                         const std::string& expected) {
    if (expected.empty() || expected == found) return;
    throw TrustError(fmt::format("REFUSED: {} has the {} {}, expected {}", bundle.label(), what,
                                 found, expected));
  };
  const Contents& contents = bundle.contents;
  const bool with_lab = options.expected_id.find('/') != std::string::npos;
  check("hash", bundle.sha256, options.expected_sha256);
  check("id", with_lab ? contents.id.str() : contents.id.name, options.expected_id);
  check("version", contents.version, options.expected_version);
}

void check_trust(const Bundle& bundle, Keyring& keys, const InstallOptions& options) {
  if (!bundle.signer) return check_signer(bundle, keys, options);
  keys.admit(*bundle.signer, bundle.label(), options.policy, options.ask);
}

void check_signer(const Bundle& bundle, const Keyring& keys, const InstallOptions& options) {
  const std::string label = bundle.label(), lab = bundle.contents.id.lab;
  if (bundle.signer) return keys.vet(*bundle.signer, label, options.policy, options.ask);
  refuse_reserved(lab, label);
  // Whatever the policy: who takes the signature off a bundle must not get it in.
  if (!keys.keys_of(lab).empty()) {
    throw TrustError(
        fmt::format("{}: REFUSED: it is not signed, and lab '{}' has a key here; ask the "
                    "lab for the signed one",
                    label, lab));
  }
  keys.refuse_look_alikes(lab, label);
  const std::string question = fmt::format(
      "{} is not signed: nobody guarantees its origin. Its code will run with your rights. Install "
      "it?",
      label);
  if (permits(options.policy.unsigned_bundles, options.ask, question)) return;
  throw TrustError(
      fmt::format("{}: it is not signed, and the policy does not let it in; --yes, or "
                  "`unsigned: allow` in policy.yaml",
                  label));
}

void check_version_goes_up(const Bundle& bundle, const std::optional<Installed>& active,
                           const Keyring& keys, const InstallOptions& options) {
  const bool readable = active && active->problem.empty();
  if (options.allow_downgrade) return;
  const Contents& contents = bundle.contents;
  const std::string highest = keys.highest(contents.id.str());
  const std::string newest =
      readable && (highest.empty() || compare_versions(active->version, highest) > 0)
          ? active->version
          : highest;
  if (!newest.empty() && compare_versions(contents.version, newest) < 0) {
    throw TrustError(
        fmt::format("{}: REFUSED: {} was installed here; an older version may bring back what was "
                    "fixed since (--allow-downgrade takes it)",
                    bundle.label(), newest));
  }
  const bool same_version = readable && compare_versions(active->version, contents.version) == 0;
  if (same_version && active->bundle == bundle.sha256) return;
  // Also of a version that was removed, or that one went back from.
  const std::vector<std::string> known = keys.bundles_of(contents.id.str(), contents.version);
  const bool is_known = std::find(known.begin(), known.end(), bundle.sha256) != known.end();
  if (!same_version && (known.empty() || is_known)) return;
  throw TrustError(fmt::format(
      "{}: REFUSED: another bundle of this very version {} (--allow-downgrade takes it)",
      bundle.label(), same_version ? "is installed" : "was installed here"));
}

void check_still_trusted(const Installed& one, const Keyring& keys, const InstallOptions& options) {
  if (one.key.empty() && options.policy.unsigned_bundles == Rule::refuse) {
    throw TrustError(one.label() + ": REFUSED: it is not signed, and policy.yaml refuses that");
  }
  for (const KnownKey& key : keys.keys()) {
    if (key.key.id_text() != one.key || key.revoked.empty()) continue;
    throw TrustError(fmt::format("{}: REFUSED: its key {} of lab '{}' was revoked on {}",
                                 one.label(), one.key, key.lab, key.revoked));
  }
  if (one.key.empty()) return;
  const Bundle bundle = read_bundle(one.bundle_file());
  if (bundle.signer) keys.refuse_awaited(*bundle.signer, one.label());
}

}  // namespace attnlab::sharing
