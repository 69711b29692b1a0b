#include "framework/sharing/content_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/sharing/foreign_json.h"
#include "framework/sharing/hash.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

json file_json(const ArchiveFile& file) {
  json out = {{"path", file.path}, {"size", file.bytes.size()}, {"sha256", sha256(file.bytes)}};
  if (file.executable) out["executable"] = true;
  return out;
}

void check_file(const json& listed, const ArchiveFile& file) {
  if (listed.at("path") != file.path) {
    throw BundleError(fmt::format("'{}': is not what the content list names here ('{}')", file.path,
                                  one_line(listed.at("path").get<std::string>(), 200)));
  }
  if (listed.at("size") != file.bytes.size() || listed.at("sha256") != sha256(file.bytes) ||
      listed.value("executable", false) != file.executable) {
    throw BundleError(fmt::format("'{}': differs from the content list", file.path));
  }
}

void check_files(const json& list, const std::vector<ArchiveFile>& files) {
  if (list.size() != files.size()) {
    throw BundleError(
        fmt::format("holds {} files, its content list names {}", files.size(), list.size()));
  }
  for (std::size_t i = 0; i < files.size(); ++i) check_file(list.at(i), files[i]);
}

std::vector<Binary> read_binaries(const json& in, const std::vector<ArchiveFile>& files) {
  std::set<std::string> paths;
  for (const ArchiveFile& file : files) paths.insert(file.path);
  std::vector<Binary> all;
  for (const json& one : in) {
    Binary binary{one.at("path"), one.at("stamp").get<Stamp>()};
    if (paths.count(binary.path) == 0) {
      throw BundleError(fmt::format("'{}': a binary that is not there", one_line(binary.path)));
    }
    all.push_back(std::move(binary));
  }
  return all;
}

void check_kind(const Contents& contents) {
  static const std::set<std::string> kinds = {"attention", "model", "task", "dataset"};
  const bool known =
      contents.type == "plugin" ? kinds.count(contents.kind) > 0 : contents.type == "result";
  if (!known) {
    throw BundleError(fmt::format("holds '{}' of the kind '{}', which this attnlab does not know",
                                  one_line(contents.type, 50), one_line(contents.kind, 50)));
  }
}

}  // namespace

std::string write_contents(const Contents& contents, const std::vector<ArchiveFile>& files) {
  json out = json::object();
  out["format"] = kFormat;
  out["type"] = contents.type;
  out["id"] = contents.id.str();
  out["version"] = contents.version;
  if (!contents.kind.empty()) out["kind"] = contents.kind;
  out["summary"] = contents.summary;
  out["citation"] = contents.citation;
  out["licence"] = contents.licence;
  out["attnlab"] = contents.attnlab;
  out["binaries"] = json::array();
  for (const Binary& binary : contents.binaries) {
    out["binaries"].push_back({{"path", binary.path}, {"stamp", binary.stamp}});
  }
  std::vector<const ArchiveFile*> sorted;
  sorted.reserve(files.size());
  for (const ArchiveFile& file : files) sorted.push_back(&file);
  std::sort(sorted.begin(), sorted.end(),
            [](const ArchiveFile* a, const ArchiveFile* b) { return a->path < b->path; });
  out["files"] = json::array();
  for (const ArchiveFile* file : sorted) out["files"].push_back(file_json(*file));
  return out.dump(1) + "\n";
}

Contents read_contents(const std::string& text, const std::vector<ArchiveFile>& files) {
  try {
    const json in = parse_json(text, kLargestContentList);
    if (in.at("format") != kFormat) {
      throw BundleError(fmt::format("is of format {}, this attnlab reads {}; take a newer attnlab",
                                    in.at("format").dump(), kFormat));
    }
    check_files(in.at("files"), files);
    Contents contents;
    contents.type = in.at("type");
    contents.id = parse_id(in.at("id"));
    contents.version = in.at("version");
    check_version(contents.version);
    contents.kind = in.value("kind", "");
    check_kind(contents);
    contents.summary = one_line(in.at("summary").get<std::string>());
    contents.citation = printable(in.at("citation").get<std::string>());
    contents.licence = one_line(in.at("licence").get<std::string>());
    contents.attnlab = one_line(in.at("attnlab").get<std::string>(), 50);
    contents.binaries = read_binaries(in.at("binaries"), files);
    return contents;
  } catch (const json::exception& damage) {
    throw BundleError(fmt::format("{}: {}", kContentList, one_line(damage.what(), 200)));
  }
}

}  // namespace attnlab::sharing
