#include "framework/data/detection/boxed_images.h"

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/image/resize.h"
#include "framework/tensor/kept_memory.h"

namespace attnlab {
namespace {

void set_boxes(NamedTensors& fields, const std::vector<ObjectBox>& objects) {
  const auto count = static_cast<std::int64_t>(objects.size());
  const Tensor boxes = at::empty({count, 4}), areas = at::empty({count});
  const Tensor labels = at::empty({count}, at::kLong), kinds = at::empty({count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    const ObjectBox& object = objects[std::size_t(i)];
    float* box = boxes.data_ptr<float>() + 4 * i;
    box[0] = float(object.x0);
    box[1] = float(object.y0);
    box[2] = float(object.x1);
    box[3] = float(object.y1);
    areas.data_ptr<float>()[i] = float(object.area);
    labels.data_ptr<std::int64_t>()[i] = object.label;
    kinds.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(object.kind);
  }
  fields.set("box@box", boxes);
  fields.set("label@box", labels);
  fields.set("area@box", areas);
  fields.set("ignored@box", kinds);
}

}  // namespace

BoxedImages::BoxedImages(PictureSplits splits, const BoxedImageOptions& options,
                         const std::string& more)
    : splits_(std::move(splits)),
      options_(options),
      map_(PixelMap::of_options(options.mean, options.deviation)) {
  check(static_cast<const FramingOptions&>(options));
  if (splits_.train == nullptr || splits_.train->size() == 0) {
    throw DataError("dataset '" + splits_.name + "': there are no pictures to train on");
  }
  info_.name = splits_.name;
  info_.source = splits_.source;
  info_.class_names = splits_.class_names;
  info_.classes = static_cast<std::int64_t>(splits_.class_names.size());
  // What evaluations show; what training draws changes nothing in the data.
  std::string shown = splits_.name + ";" + std::to_string(options.size) + ";" +
                      shortest(options.least_visible) + ";" + more;
  for (const auto* numbers : {&options.mean, &options.deviation}) {
    for (const double number : *numbers) shown += shortest(number) + ";";
  }
  info_.fingerprint = hex(fingerprint(shown, splits_.fingerprint));
  FieldInfo image{"image", {3, -1, -1}, at::kFloat};
  image.mean = options.mean;
  image.deviation = options.deviation;
  info_.fields = {image,
                  {"image_valid", {-1, -1}, at::kBool},
                  {"size", {2}, at::kLong},
                  {"image_id", {}, at::kLong},
                  {"box@box", {-1, 4}, at::kFloat},
                  {"label@box", {-1}, at::kLong, {}, info_.classes},
                  {"area@box", {-1}, at::kFloat},
                  {"ignored@box", {-1}, at::kLong, {"counted", "difficult", "crowd"}, 3}};
}

const PictureSet* BoxedImages::set(Split split) const {
  return (split == Split::train        ? splits_.train
          : split == Split::validation ? splits_.validation
                                       : splits_.test)
      .get();
}

std::int64_t BoxedImages::size(Split split) const {
  return set(split) == nullptr ? 0 : set(split)->size();
}

Tensor BoxedImages::shown(const PictureSet& pictures, std::int64_t index,
                          const Framing& framing) const {
  const PictureSet::Part part = pictures.part(index, framing.part, framing.height, framing.width);
  const Pixels seen =
      resized(part.pixels, part.box, framing.height, framing.width, Filter::bilinear);
  const Tensor image = empty_kept({3, framing.height, framing.width});
  write_image(seen, map_, framing.flip, image.data_ptr<float>());
  return image;
}

NamedTensors BoxedImages::fields_of(const PictureSet& pictures, std::int64_t index,
                                    Random* augmentation,
                                    const std::vector<char>* kept_labels) const {
  const PictureNotes& notes = pictures.notes(index);
  const Framing framing = augmentation == nullptr ? whole_picture(notes, options_.size)
                                                  : drawn_framing(notes, options_, *augmentation);
  std::vector<ObjectBox> kept;
  for (const ObjectBox& object : notes.objects) {
    if (kept_labels == nullptr || (*kept_labels)[std::size_t(object.label)] != 0) {
      kept.push_back(object);
    }
  }
  NamedTensors fields = {{"image", shown(pictures, index, framing)},
                         {"size", at::tensor({notes.height, notes.width}, at::kLong)},
                         {"image_id", at::scalar_tensor(notes.id, at::kLong)}};
  set_boxes(fields, framed_boxes(kept, framing, options_.least_visible));
  return fields;
}

NamedTensors BoxedImages::make_example(Split split, std::int64_t index,
                                       Random* augmentation) const {
  return fields_of(*set(split), index, augmentation, nullptr);
}

}  // namespace attnlab
