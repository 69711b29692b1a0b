// Pictures: any image files, and one that shows what to look for. Nothing is known of them.
//
// For looking at pictures of one's own with a trained detector (`attnlab detect`): there are no
// boxes, so nothing can be learnt or measured. Training and test split are the same pictures, in
// the order of `files`. The prompt is a whole file, resized to a square. Fields:
// framework/data/detection/boxed_images.h, and `prompt` [3, p, p] where there is one.
#include "framework/base/files.h"
#include "framework/data/detection/boxed_images.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/resize.h"
#include "framework/data/pictures/image_file.h"
#include "framework/data/pictures/picture_files.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct PicturesOptions : BoxedImageOptions {
  std::vector<std::string> files;
  std::string prompt;
  std::int64_t prompt_size = 300;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("files", files, "the pictures: JPEG, PNG, WebP or Netpbm");
    v("prompt", prompt, "a picture of what to look for; empty: none");
    v("prompt_size", prompt_size, range(8, 4096), "side of the prompt in pixels");
    BoxedImageOptions::describe(v);
  }
};

PictureSplits opened(const PicturesOptions& options) {
  if (options.files.empty()) throw OptionError("files", "names no picture");
  std::vector<PictureNotes> notes;
  std::vector<std::string> paths;
  for (const std::string& given : options.files) {
    const ImageFile file(paths.emplace_back(data_path(given)));
    notes.push_back({std::int64_t(notes.size()), file.height(), file.width(), {}});
  }
  const auto files = std::make_shared<PictureFiles>(std::move(notes), std::move(paths));
  PictureSplits splits;
  splits.name = "pictures";
  splits.source = std::to_string(options.files.size()) + " files";
  splits.fingerprint = fingerprint_of({files.get()}, fingerprint("pictures"));
  if (!options.prompt.empty()) {
    splits.fingerprint =
        content_fingerprint(read_text(data_path(options.prompt)), splits.fingerprint);
  }
  splits.train = splits.test = files;
  return splits;
}

class Pictures final : public BoxedImages {
 public:
  Pictures(const PicturesOptions& options, const DatasetSetup&)
      : BoxedImages(opened(options), options, std::to_string(options.prompt_size)) {
    if (options.prompt.empty()) return;
    const std::int64_t side = options.prompt_size;
    ImageFile file(data_path(options.prompt));
    const ImageFile::Part whole = file.read({0, 0, file.height(), file.width()}, side, side);
    prompt_ = at::empty({3, side, side});
    write_image(resized(whole.pixels, whole.box, side, side, Filter::bilinear), map(), false,
                prompt_.data_ptr<float>());
    info_.fields.push_back({"prompt", {3, side, side}, at::kFloat});
    info_.fields.back().mean = options.mean;
    info_.fields.back().deviation = options.deviation;
  }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    NamedTensors fields = fields_of(*set(split), index, nullptr, nullptr);
    if (prompt_.defined()) fields.set("prompt", prompt_.clone());
    return fields;
  }

 private:
  Tensor prompt_;  ///< [3, p, p]; undefined: none
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Pictures, PicturesOptions,
               {.id = "attnlab/pictures",
                .version = "1.0.0",
                .summary = "any image files, and a picture of what to look for; no boxes",
                .licence = "that of your pictures",
                .gives = {"image", "image_valid", "size", "image_id", "box@box", "label@box",
                          "area@box", "ignored@box", "prompt"}})

}  // namespace attnlab
