// What may come in, and what may be put into use again.
#pragma once

#include <optional>
#include <string>

#include "framework/sharing/install.h"

namespace attnlab::sharing {

/// The id of the key that signed it; empty: none did.
std::string signer_of(const Bundle& bundle);
/// Whether a bundle may come in, as check_trust does; but pins nothing. @throws TrustError.
void check_signer(const Bundle& bundle, const Keyring& keys, const InstallOptions& options);
/// What was asked for must be what came (InstallOptions::expected_...). @throws TrustError.
void check_expected(const Bundle& bundle, const InstallOptions& options);
/// Refuses a version that is older than what is or was installed, and another bundle of one that is
/// or was.
/// @param active  what is in use, if anything is. @throws TrustError.
void check_version_goes_up(const Bundle& bundle, const std::optional<Installed>& active,
                           const Keyring& keys, const InstallOptions& options);
/// Installed code is not put into use again once its key was revoked, or unsigned where the policy
/// now refuses that. (An expired key still counts for what was installed before.)
/// @throws TrustError.
void check_still_trusted(const Installed& one, const Keyring& keys, const InstallOptions& options);

}  // namespace attnlab::sharing
