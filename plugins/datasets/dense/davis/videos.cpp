#include "plugins/datasets/dense/davis/videos.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/data/formats/folder.h"
#include "framework/data/formats/lines.h"
#include "framework/data/pictures/image_file.h"
#include "framework/data/pictures/picture_files.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostObjects = 254;

/// What a mask's numbers mean. @param of_2016  255 is an object, the only one
LabelRule rule_of(bool of_2016) {
  LabelRule rule = LabelRule::refusing();
  rule.class_names = {"background"};
  rule.classes[0] = 0;
  const std::size_t objects = of_2016 ? 1 : kMostObjects;
  for (std::size_t k = 1; k <= objects; ++k) {
    rule.class_names.push_back(fmt::format("object {}", k));
    if (!of_2016) rule.classes[k] = static_cast<std::int16_t>(k);
  }
  rule.classes[255] = of_2016 ? 1 : kUnlabelled;
  rule.numbers = of_2016 ? "0 and, for the object, 255"
                         : fmt::format("0 to {} and, for no label, 255", kMostObjects);
  return rule;
}

struct VideoList {
  std::vector<std::string> names, places;  ///< places: "FILE:LINE"
  bool of_2016 = false;
};

VideoList read_list(const std::string& path) {
  const TextLines text = read_lines(path);
  VideoList list;
  std::set<std::string_view> known;
  for (std::size_t i = 0; i < text.lines.size(); ++i) {
    std::string_view line = text.lines[i].text;
    const bool of_2016 = line.find('/') != line.npos;
    if (i > 0 && of_2016 != list.of_2016) {
      throw DataError(text.place(i) +
                      ": some lines are names of videos and others are paths of frames; take the "
                      "file as it was published");
    }
    list.of_2016 = of_2016;
    if (of_2016) {  // /JPEGImages/480p/VIDEO/00000.jpg /Annotations/...
      line = line.substr(0, line.find_first_of(" \t"));
      line = line.substr(0, line.rfind('/'));
      line.remove_prefix(line.rfind('/') + 1);
    }
    if (line.empty()) throw DataError(text.place(i) + ": names no video");
    if (known.insert(line).second) {
      list.names.emplace_back(line);
      list.places.push_back(text.place(i));
    } else if (!of_2016) {
      throw DataError(text.place(i) + ": names a video that stands above; take one of both out");
    }
  }
  if (list.names.empty()) throw DataError(path + ": names no video; name another set");
  return list;
}

/// The frames of a video and their masks. @param place  of the list's line, for messages
std::vector<LabelledFile> frames_of(const std::string& root, const std::string& video,
                                    const std::string& place) try {
  const std::string pictures = root + "/JPEGImages/480p/" + video;
  std::vector<LabelledFile> frames;
  for (const fs::directory_entry& entry : visible_entries(pictures)) {
    const std::string name = entry.path().filename().string();
    if (!has_picture_ending(name)) continue;
    refuse_link_to_nothing(entry);
    const std::string mask =
        fmt::format("{}/Annotations/480p/{}/{}.png", root, video, entry.path().stem().string());
    std::error_code error;
    if (!fs::is_regular_file(mask, error)) {
      throw DataMissingError(fmt::format(
          "{}/{}: its mask {} is not there; put it there, or take a set whose frames all have one "
          "(of test-dev only the first frame has)",
          pictures, name, mask));
    }
    frames.push_back({pictures + "/" + name, mask});
  }
  if (frames.empty()) {
    throw DataMissingError(fmt::format(
        "{}: there are no frames in {}; put them there, or take the line out", place, pictures));
  }
  if (frames.size() < 3) {
    throw DataError(
        fmt::format("{}: {} has {} frames, and a video needs three: the first is given, the last "
                    "does not count; take the line out",
                    place, pictures, frames.size()));
  }
  return frames;
} catch (const fs::filesystem_error& error) {
  cannot_list(root, error);
}

/// What only all frames of a video together show. @param files  of the set
void check(const Video& video, const LabelledFiles& frames,
           const std::vector<LabelledFile>& files) {
  const PictureSize own = frames.size_of(video.begin);
  for (std::int64_t i = video.begin; i < video.begin + video.frames; ++i) {
    const PictureSize size = frames.size_of(i);
    if (size == own) continue;
    throw DataError(fmt::format(
        "{}: has {} x {} pixels, and the first frame of its video has {} x {}; fetch both again",
        frames.name_of(i), size.height, size.width, own.height, own.width));
  }
  const LabelMap first = frames.labels(video.begin);
  if (*std::max_element(first.classes.begin(), first.classes.end()) > 0) return;
  throw DataError(files[static_cast<std::size_t>(video.begin)].labels +
                  ": shows no object, and objects are known by a video's first mask; take the "
                  "video out of the list");
}

}  // namespace

VideoSet read_videos(const std::string& root, const std::string& set) {
  const VideoList list = read_list(fmt::format("{}/ImageSets/{}.txt", root, set));
  VideoSet out;
  std::vector<LabelledFile> files;
  std::uint64_t hash = fingerprint(list.of_2016 ? "davis 2016" : "davis");
  for (std::size_t v = 0; v < list.names.size(); ++v) {
    const std::vector<LabelledFile> frames = frames_of(root, list.names[v], list.places[v]);
    out.videos.push_back({list.names[v], std::ssize(files), std::ssize(frames)});
    hash = fingerprint(fmt::format("{}:{};", list.names[v], frames.size()), hash);
    files.insert(files.end(), frames.begin(), frames.end());
  }
  std::vector<std::string> paths;
  for (const LabelledFile& file : files) {
    paths.push_back(file.picture);
    paths.push_back(file.labels);
  }
  out.fingerprint = fingerprint_of(paths, hash);
  out.frames = std::make_shared<const LabelledFiles>(
      files, std::make_shared<const LabelRule>(rule_of(list.of_2016)), hex(out.fingerprint));
  for (const Video& video : out.videos) check(video, *out.frames, files);
  return out;
}

}  // namespace attnlab
