#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/data/detection/coco_file.h"
#include "framework/data/formats/files.h"
#include "framework/data/pictures/layouts.h"
#include "framework/data/pictures/picture_files.h"

namespace attnlab {

PictureSplits read_coco_sets(const CocoOptions& options) {
  const std::string sets[] = {options.train_set, options.validation_set, options.test_set};
  const auto file_of = [](const std::string& set) {
    return "annotations/instances_" + set + ".json";
  };
  for (std::size_t other = 1; other < 3; ++other) {
    if (sets[0].empty() || sets[other] != sets[0]) continue;
    throw OptionError("train_set", sets[0] + " is " + (other == 1 ? "validation_set" : "test_set") +
                                       ", too; name sets that share no picture");
  }
  DataSearch search{options.name,
                    {},
                    options.root,
                    "fetch pictures and annotations from https://cocodataset.org",
                    /*packed=*/false};
  for (const std::string& set : sets) {
    if (!set.empty()) search.files.push_back(file_of(set));
  }
  PictureSplits splits;
  splits.name = "coco";
  const std::string root = splits.source = find_data_folder(search);
  std::uint64_t hash = fingerprint("coco");
  DroppedBoxes dropped;
  std::shared_ptr<const PictureSet>* into[] = {&splits.train, &splits.validation, &splits.test};
  for (std::size_t i = 0; i < 3; ++i) {
    if (sets[i].empty()) continue;
    const std::string path = root + "/" + file_of(sets[i]);
    CocoFile file = read_coco(path, {});
    dropped += file.dropped;
    if (splits.class_names.empty()) splits.class_names = file.class_names;
    if (splits.class_names != file.class_names) {
      throw DataError(path + ": has other categories than the set before it");
    }
    for (std::string& name : file.files) name = root + "/" + sets[i] + "/" + name;
    const auto pictures =
        std::make_shared<PictureFiles>(std::move(file.pictures), std::move(file.files));
    hash = fingerprint_of({pictures.get()}, hash ^ file.fingerprint);
    *into[i] = pictures;
  }
  splits.fingerprint = hash;
  splits.source += dropped.text();
  return splits;
}

}  // namespace attnlab
