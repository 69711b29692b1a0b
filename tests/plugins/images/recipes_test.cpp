// The published recipes build, and have their published sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "framework/config/compose.h"
#include "framework/nn/modules/sizes_alone.h"
#include "framework/train/costs.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::recipes_test {
namespace {

struct Recipe {
  const char* name;
  std::int64_t size, classes;
};

void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

class Recipes : public ::testing::TestWithParam<Recipe> {};

/// Where `init.experiment` is found by its name, while it lives.
class AboveConfigs {
 public:
  AboveConfigs() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(std::filesystem::path(ATTNLAB_TEST_CONFIGS).parent_path());
  }
  ~AboveConfigs() { std::filesystem::current_path(before_); }
  AboveConfigs(const AboveConfigs&) = delete;
  AboveConfigs& operator=(const AboveConfigs&) = delete;

 private:
  std::filesystem::path before_;
};

/// The recipe with made-up images of its size, since ImageNet is not everywhere.
BuiltRun built(const Recipe& recipe) {
  const AboveConfigs above;
  const std::string file = std::string(ATTNLAB_TEST_CONFIGS) + "/experiments/paper/" + recipe.name;
  const std::vector<std::string> overrides = {
      "dataset=synthetic_images", "dataset.size=" + std::to_string(recipe.size),
      "dataset.classes=" + std::to_string(recipe.classes), "dataset.channels=3", "train.threads=1"};
  return build_run(load_experiment(file + ".yaml", overrides, testing::registry().catalogue()), 0,
                   testing::registry());
}

TEST_P(Recipes, HavePublishedSizes) {
  const SizesAlone sizes;
  const BuiltRun run = built(GetParam());
  const PublishedCounts& published = run.experiment.published;
  const auto parameters = double(run.parameter_count());
  const double products = double(forward_flops(run)) / 2;
  std::cout << GetParam().name << ": " << parameters / 1e6 << " M parameters (published "
            << published.parameters / 1e6 << "), " << products / 1e9
            << " G multiply-adds an image (published " << published.multiply_adds / 1e9
            << "; 0: none)\n";
  ASSERT_GT(published.parameters, 0);
  EXPECT_NEAR(parameters, published.parameters, 0.006 * published.parameters);
  if (published.multiply_adds == 0) return;
  EXPECT_NEAR(products, published.multiply_adds, 0.03 * published.multiply_adds);
}

// What is published of first stages at another size than 224 is their size at 224: positions are
// all that differs. Not ViT-H: its weights alone are 2.5 GB. Of yam_cifar100 and yam_imagenette the
// paper prints no size.
INSTANTIATE_TEST_SUITE_P(
    Published, Recipes,
    ::testing::Values(Recipe{"deit/deit_ti", 224, 1000}, Recipe{"deit/deit_s", 224, 1000},
                      Recipe{"deit/deit_b", 224, 1000}, Recipe{"deit/deit_l", 224, 1000},
                      Recipe{"deit/deit3_b", 192, 1000}, Recipe{"deit/deit3_b_224", 224, 1000},
                      Recipe{"deit/deit3_l", 192, 1000}, Recipe{"deit/deit3_l_224", 224, 1000},
                      Recipe{"crossvit/crossvit_9_dagger", 240, 1000},
                      Recipe{"crossvit/crossvit_s", 240, 1000},
                      Recipe{"crossvit/crossvit_18_dagger", 240, 1000},
                      Recipe{"yam/yam_cifar10", 32, 10}),
    [](const auto& recipe) { return std::filesystem::path(recipe.param.name).stem().string(); });

TEST(AllRecipes, Resolve) {
  const auto datasets = testing::registry().catalogue().names(Kind::dataset);
  if (std::count(datasets.begin(), datasets.end(), "image_folder") == 0) {
    GTEST_SKIP() << "needs image_folder, which needs OpenCV";
  }
  const AboveConfigs above;
  int count = 0;
  for (const char* folder : {"deit", "crossvit", "quest", "yam"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(ATTNLAB_TEST_CONFIGS) +
                                                                 "/experiments/paper/" + folder)) {
      const std::string file = entry.path().string();
      EXPECT_NO_THROW(load_experiment(file, {}, testing::registry().catalogue())) << file;
      ++count;
    }
  }
  EXPECT_GE(count, 37);
}

}  // namespace
}  // namespace attnlab::recipes_test
