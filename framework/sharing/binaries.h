// Libraries in a bundle, and whether they are what the bundle says.
#pragma once

#include <string>
#include <vector>

#include "framework/sharing/content_list.h"

namespace attnlab::sharing {

/// Whether two manifests, JSON, are the same apart from the build stamp.
/// @throws BundleError, nlohmann::json::exception.
bool same_but_for_stamp(const std::string& first, const std::string& second);

/// Refuses a library whose manifest is not what the content list says: kind, id, version, summary,
/// citation and licence. (An index shows people the list's words.) @throws BundleError.
void check_says(const Contents& contents, const Manifest& library);

/// Puts a library that was built elsewhere into a bundle, for machines with its stamp.
/// @param manifest  of the library that was built here; both must agree apart from the stamp
/// @throws PluginError where it is not a plugin; BundleError, naming it, where it is another one or
/// a binary with this stamp is in the bundle already.
void add_binary(const std::string& library, const Manifest& manifest, Contents& contents,
                std::vector<ArchiveFile>& files);

}  // namespace attnlab::sharing
