// Installing a bundle: everything is tried in a staging folder, then one rename puts it into use.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/sharing/keyring.h"
#include "framework/sharing/store.h"

namespace attnlab::sharing {

/// A step of an installation failed; nothing of it is left but its log.
class InstallError : public Error {
 public:
  InstallError(const std::string& label, const std::string& step, const std::string& reason,
               const std::string& log);
};

/// What an installation needs of the program: compiling and running foreign code. Each throws an
/// Error that says what went wrong, and writes to the log.
struct InstallTools {
  Stamp host;  ///< what a library's stamp must equal
  /// Builds the source. @returns the library's path.
  std::function<std::string(const std::string& source, const std::string& work,
                            const std::string& log)>
      build;
  /// The conformance kit. @returns its report as JSON; throws where a check failed.
  std::function<std::string(const std::string& library, const std::string& work,
                            const std::string& log)>
      test;
  /// Compares with the bundle's expected numbers. @returns what was compared, for the person.
  std::function<std::string(const Bundle& bundle, const std::string& library,
                            const std::string& work, const std::string& log)>
      compare;
  /// Refuses a name that another plugin of this machine has.
  std::function<void(const Manifest& manifest, const std::string& library)> check_name;
};

struct InstallOptions {
  Policy policy;
  Ask ask;
  bool kit = true;
  bool from_source = false;      ///< a fitting binary in the bundle is not taken
  bool allow_downgrade = false;  ///< an older version, or another bundle of the same one
  bool for_now = false;         ///< what it takes the place of is to come back (Installed::for_now)
  std::string expected_sha256;  ///< of an index or a lock; empty: any
  std::string expected_id;      ///< what was asked for: "acme/sharp", "sharp"; empty: any
  std::string expected_version;  ///< empty: any
  std::function<void(const std::string& line)> say = [](const std::string&) {};
  std::function<void(const std::string& step)> at_step = [](const std::string&) {};  ///< for tests
};

/// Whether a bundle may come in: its key, or what the policy says of unsigned ones. A lab's first
/// key is pinned. (For results; `install` pins at its last step.) @throws TrustError.
void check_trust(const Bundle& bundle, Keyring& keys, const InstallOptions& options);

/// Installs a bundle, or finds that it is installed already.
/// @param bytes  of the bundle's file
/// @param origin what messages call it
/// @throws BundleError, TrustError, ConfigError (a taken name) before anything is written, naming
/// the step 'verify'; InstallError for the later steps. A lab's first key is pinned, and the
/// version noted, when the plugin comes into use.
Installed install(const std::string& bytes, const std::string& origin, const Store& store,
                  Keyring& keys, const InstallTools& tools, const InstallOptions& options);

/// Builds an installed plugin anew from its own bundle, for a host with another stamp.
/// @throws TrustError where its key was revoked since, or the policy now refuses unsigned ones.
Installed rebuild(const Installed& installed, const Store& store, Keyring& keys,
                  const InstallTools& tools, const InstallOptions& options);

/// Goes back to what the version in use took the place of. @throws ConfigError where there is none,
/// TrustError where it was altered since, and as `rebuild`.
Installed roll_back(const Installed& installed, const Store& store, const Keyring& keys,
                    const InstallOptions& options);

}  // namespace attnlab::sharing
