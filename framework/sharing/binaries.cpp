#include "framework/sharing/binaries.h"

#include <fmt/format.h>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/sharing/foreign_json.h"

namespace attnlab::sharing {
namespace {

nlohmann::json without_stamp(const std::string& manifest) {
  nlohmann::json parsed = parse_json(manifest);
  parsed.erase("stamp");
  return parsed;
}

}  // namespace

bool same_but_for_stamp(const std::string& first, const std::string& second) {
  return without_stamp(first) == without_stamp(second);
}

void check_says(const Contents& contents, const Manifest& library) {
  const auto check = [](const char* what, const std::string& found, const std::string& said) {
    if (found == said) return;
    throw BundleError(fmt::format("the library is {}{}, the bundle says {}", what, one_line(found),
                                  one_line(said)));
  };
  check("", fmt::format("{} {} {}", name_of(library.kind), library.id, library.version),
        fmt::format("{} {} {}", contents.kind, contents.id.str(), contents.version));
  check("summed up as ", library.summary, contents.summary);
  check("to be cited as ", library.citation, contents.citation);
  check("under the licence ", library.licence, contents.licence);
}

void add_binary(const std::string& library, const Manifest& manifest, Contents& contents,
                std::vector<ArchiveFile>& files) {
  const Manifest other = read_manifest(library);
  if (!same_but_for_stamp(other.json, manifest.json)) {
    throw BundleError(fmt::format(
        "{}: is {} {}, and not the library that the source gives ({} {}), or its "
        "manifest differs; build it from this source",
        library, one_line(other.id), one_line(other.version), manifest.id, manifest.version));
  }
  for (const Binary& known : contents.binaries) {
    if (!stamp_differences(known.stamp, other.stamp).empty()) continue;
    throw BundleError(fmt::format("{}: a binary with its stamp is in the bundle already", library));
  }
  const std::string path =
      fmt::format("binaries/{}/{}.so", contents.binaries.size(), contents.id.name);
  files.push_back({path, read_text(library)});
  contents.binaries.push_back({path, other.stamp});
}

}  // namespace attnlab::sharing
