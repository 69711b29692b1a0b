// One-shot detection over any pictures with boxes: a prompt shows an object of a class, and all
// objects of that class are looked for in a picture.
//
// Classes are base or novel; training knows base classes alone. Fields beside those of
// boxed_images.h:
//   prompt [3, p, p]      an object cut out of another picture of the same split, resized to a
//                         square
//   prompt_class []       its class
//   prompt_number []      which of the prompts of this picture and class it is
// A training example is a picture with a base class; class and prompt are drawn each time, boxes of
// novel classes are left out. An example of an evaluation is a picture, a class, and one of its
// `prompts` prompts: the objects of that class in other pictures in an order that depends on the
// picture's id alone, the first ones. `ask: present` asks for the classes that a picture has, as
// published; `all` for every class.
// Source: Hsieh et al., One-Shot Object Detection with Co-Attention and Co-Excitation, NeurIPS
// 2019; prompts by the picture's id as Indirect Attention's appendix B.2 says (the order is ours).
#pragma once

#include "framework/data/detection/boxed_images.h"

namespace attnlab {

struct OneShotOptions : BoxedImageOptions {
  std::vector<std::string> novel;
  std::int64_t prompt_size = 300, prompts = 5;
  std::string ask = "present";
  bool prompt_augmentation = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("novel", novel, "classes that training does not see; empty: all are base classes");
    v("prompt_size", prompt_size, range(8, 4096), "side of a prompt in pixels");
    v("prompts", prompts, range(1, 1000), "prompts per picture and class in evaluation");
    v("ask", ask, one_of("present", "all"),
      "classes that evaluation looks for in a picture: those in it, or all");
    v("prompt_augmentation", prompt_augmentation,
      "change prompts in training: mirror 0.5, colours 0.3, grey 0.4, blur 0.5");
    BoxedImageOptions::describe(v);
  }
};

class OneShotPairs : public BoxedImages {
 public:
  /// A class whose objects are all in one picture of a split is not asked for there; info().source
  /// says so.
  /// @throws OptionError for a novel class that does not exist; DataError where nothing can be
  /// asked
  ///         in training.
  OneShotPairs(PictureSplits splits, const OneShotOptions& options);

  std::int64_t size(Split split) const override;

 private:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override;

  /// An object that may be a prompt.
  struct Place {
    std::int64_t picture = 0;
    std::size_t object = 0;
  };
  /// Places by the ids of their pictures, whatever the order of these.
  struct ByPicture {
    const PictureSet& pictures;
    bool operator()(const Place& a, const Place& b) const {
      const std::int64_t first = pictures.notes(a.picture).id, next = pictures.notes(b.picture).id;
      return first != next ? first < next : a.picture < b.picture;
    }
  };
  /// What an example asks for; in training class and prompt are drawn.
  struct Question {
    std::int64_t picture = 0, label = 0, number = 0;
  };
  struct Pool {
    std::vector<std::vector<Place>> by_class;  ///< sorted by picture
    std::vector<char> asked;                   ///< by class: whether it is asked for in this split
    std::vector<Question> questions;
  };

  void open(Split split);
  /// Classes of a picture's objects that are asked for, rising.
  static std::vector<std::int64_t> asked_in(const PictureNotes& picture, const Pool& pool);
  const Pool& pool(Split split) const { return pools_[std::size_t(split)]; }
  /// The prompt of an evaluation.
  Place chosen_prompt(const PictureSet& pictures, const Pool& pool, const Question& question) const;
  Place drawn_prompt(const Pool& pool, std::int64_t picture, std::int64_t label,
                     Random& random) const;
  Tensor prompt(const PictureSet& pictures, const Place& place, Random* augmentation) const;

  OneShotOptions options_;
  std::vector<char> base_;  ///< by class
  Pool pools_[3];           ///< by split
};

}  // namespace attnlab
