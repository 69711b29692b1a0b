#include "framework/data/detection/one_shot.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/text.h"
#include "framework/data/image/colour.h"
#include "framework/data/image/policies.h"
#include "framework/data/image/resize.h"
#include "framework/tensor/kept_memory.h"

namespace attnlab {
namespace {

bool may_be_prompt(const ObjectBox& object) { return object.kind == BoxKind::counted; }

/// The whole pixels that a box lies in.
Box pixels_of(const ObjectBox& object, const PictureNotes& picture) {
  const auto low = [](double x) { return static_cast<std::int64_t>(std::floor(x)); };
  const auto high = [](double x, std::int64_t most) {
    return std::min(most, static_cast<std::int64_t>(std::ceil(x)));
  };
  const std::int64_t top = low(object.y0), left = low(object.x0);
  return {top, left, std::max<std::int64_t>(1, high(object.y1, picture.height) - top),
          std::max<std::int64_t>(1, high(object.x1, picture.width) - left)};
}

/// What evaluations ask, for the fingerprint.
std::string asked_as(const OneShotOptions& options) {
  return join(options.novel, ",") + ";" + std::to_string(options.prompt_size) + ";" +
         std::to_string(options.prompts) + ";" + options.ask + ";";
}

/// What published training does to prompts, but for its change of perspective.
void change(Pixels& image, Random& random) {
  if (random.uniform() < 0.3) jitter_colours(image, 0.4, random);
  if (random.uniform() < 0.4) make_grey(image);
  if (random.uniform() < 0.5) blur(image, 0.1 + 1.9 * random.uniform());
}

}  // namespace

OneShotPairs::OneShotPairs(PictureSplits splits, const OneShotOptions& options)
    : BoxedImages(std::move(splits), options, asked_as(options)), options_(options) {
  base_.assign(info_.class_names.size(), 1);
  for (const std::string& name : options.novel) {
    const auto found = std::find(info_.class_names.begin(), info_.class_names.end(), name);
    if (found == info_.class_names.end()) {
      throw OptionError("novel",
                        "there is no class '" + name + "'" + suggestion(name, info_.class_names));
    }
    base_[std::size_t(found - info_.class_names.begin())] = 0;
  }
  for (std::size_t k = 0; k < base_.size(); ++k) {
    info_.class_groups[base_[k] != 0 ? "base" : "novel"].push_back(std::int64_t(k));
  }
  if (std::count(base_.begin(), base_.end(), 1) == 0) {
    throw OptionError("novel", "leaves no class to train on");
  }
  for (const Split split : {Split::train, Split::validation, Split::test}) open(split);
  info_.fields.push_back({"prompt", {3, options.prompt_size, options.prompt_size}, at::kFloat});
  info_.fields.back().mean = options.mean;
  info_.fields.back().deviation = options.deviation;
  info_.fields.push_back({"prompt_class", {}, at::kLong, {}, info_.classes});
  info_.fields.push_back({"prompt_number", {}, at::kLong, {}, options.prompts});
}

std::vector<std::int64_t> OneShotPairs::asked_in(const PictureNotes& picture, const Pool& pool) {
  std::set<std::int64_t> classes;
  for (const ObjectBox& object : picture.objects) {
    if (may_be_prompt(object) && pool.asked[std::size_t(object.label)] != 0) {
      classes.insert(object.label);
    }
  }
  return {classes.begin(), classes.end()};
}

void OneShotPairs::open(Split split) {
  const PictureSet* pictures = set(split);
  if (pictures == nullptr) return;
  const bool training = split == Split::train;
  Pool& pool = pools_[std::size_t(split)];
  pool.by_class.resize(base_.size());
  for (std::int64_t i = 0; i < pictures->size(); ++i) {
    const std::vector<ObjectBox>& objects = pictures->notes(i).objects;
    for (std::size_t k = 0; k < objects.size(); ++k) {
      if (may_be_prompt(objects[k])) pool.by_class[std::size_t(objects[k].label)].push_back({i, k});
    }
  }
  for (std::size_t k = 0; k < base_.size(); ++k) {
    std::vector<Place>& places = pool.by_class[k];
    std::stable_sort(places.begin(), places.end(), ByPicture{*pictures});
    const bool elsewhere = !places.empty() && places.front().picture != places.back().picture;
    pool.asked.push_back(elsewhere && (!training || base_[k] != 0) ? 1 : 0);
    if (!places.empty() && !elsewhere) {
      info_.source += "; without questions for '" + info_.class_names[k] + "' in " +
                      std::string(name_of(split)) + ", whose objects are in one picture";
    }
  }
  for (std::int64_t i = 0; i < pictures->size(); ++i) {
    const std::vector<std::int64_t> there = asked_in(pictures->notes(i), pool);
    if (training) {
      if (!there.empty()) pool.questions.push_back({i, there.front(), 0});
      continue;
    }
    for (std::int64_t k = 0; k < info_.classes; ++k) {
      const bool asks = options_.ask == "all" ? pool.asked[std::size_t(k)] != 0
                                              : std::count(there.begin(), there.end(), k) > 0;
      for (std::int64_t n = 0; asks && n < options_.prompts; ++n)
        pool.questions.push_back({i, k, n});
    }
  }
  if (training && pool.questions.empty()) {
    throw DataError("dataset '" + info_.name + "': no picture to train on has a base class");
  }
}

std::int64_t OneShotPairs::size(Split split) const {
  return static_cast<std::int64_t>(pool(split).questions.size());
}

OneShotPairs::Place OneShotPairs::drawn_prompt(const Pool& pool, std::int64_t picture,
                                               std::int64_t label, Random& random) const {
  const std::vector<Place>& places = pool.by_class[std::size_t(label)];
  for (;;) {
    const Place& place = places[std::size_t(random.below(std::int64_t(places.size())))];
    if (place.picture != picture) return place;
  }
}

OneShotPairs::Place OneShotPairs::chosen_prompt(const PictureSet& pictures, const Pool& pool,
                                                const Question& question) const {
  const auto id = static_cast<std::uint64_t>(pictures.notes(question.picture).id);
  Random random = RandomStreams(id).stream("prompt", std::uint64_t(question.label));
  const std::vector<Place>& places = pool.by_class[std::size_t(question.label)];
  // Places are sorted by picture: those of this one lie together.
  const auto own = std::equal_range(places.begin(), places.end(), Place{question.picture, 0},
                                    ByPicture{pictures});
  const std::int64_t before = own.first - places.begin(), gap = own.second - own.first;
  const std::int64_t others = std::int64_t(places.size()) - gap;
  // The first prompts of a shuffled order, without shuffling all of it.
  std::vector<std::int64_t> taken;
  const std::int64_t wanted = question.number % others;
  while (std::int64_t(taken.size()) <= wanted) {
    const std::int64_t next = random.below(others);
    if (std::find(taken.begin(), taken.end(), next) == taken.end()) taken.push_back(next);
  }
  return places[std::size_t(taken.back() < before ? taken.back() : taken.back() + gap)];
}

Tensor OneShotPairs::prompt(const PictureSet& pictures, const Place& place,
                            Random* augmentation) const {
  const PictureNotes& notes = pictures.notes(place.picture);
  const std::int64_t side = options_.prompt_size;
  const PictureSet::Part part =
      pictures.part(place.picture, pixels_of(notes.objects[place.object], notes), side, side);
  Pixels seen = resized(part.pixels, part.box, side, side, Filter::bilinear);
  bool flip = false;
  if (augmentation != nullptr && options_.prompt_augmentation) {
    flip = augmentation->uniform() < 0.5;
    change(seen, *augmentation);
  }
  const Tensor image = empty_kept({3, side, side});
  write_image(seen, map(), flip, image.data_ptr<float>());
  return image;
}

NamedTensors OneShotPairs::make_example(Split split, std::int64_t index,
                                        Random* augmentation) const {
  const PictureSet& pictures = *set(split);
  const Pool& all = pool(split);
  Question question = all.questions[std::size_t(index)];
  Place place;
  if (augmentation != nullptr && split == Split::train) {
    const std::vector<std::int64_t> labels = asked_in(pictures.notes(question.picture), all);
    question.label = labels[std::size_t(augmentation->below(std::int64_t(labels.size())))];
    place = drawn_prompt(all, question.picture, question.label, *augmentation);
  } else {
    place = chosen_prompt(pictures, all, question);
  }
  NamedTensors fields =
      fields_of(pictures, question.picture, augmentation, split == Split::train ? &base_ : nullptr);
  fields.set("prompt", prompt(pictures, place, augmentation));
  fields.set("prompt_class", at::scalar_tensor(question.label, at::kLong));
  fields.set("prompt_number", at::scalar_tensor(question.number, at::kLong));
  return fields;
}

}  // namespace attnlab
