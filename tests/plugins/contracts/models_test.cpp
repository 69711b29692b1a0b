// Every installed model keeps its contract, under every installed attention that it may use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "framework/conformance/model_conformance.h"
#include "tests/support/plugins.h"

namespace attnlab::models_test {
namespace {

using conformance::CheckResult;
using conformance::ModelSubject;
using conformance::Outcome;

struct Configured {
  std::string name;  ///< of the test
  std::string id, options = "{}";
};

void PrintTo(const Configured& model, std::ostream* out) {
  *out << model.id << " " << model.options;
}

ModelSubject subject_of(const Configured& model) {
  return conformance::model_subject_of(testing::registry(),
                                       testing::make_part(Kind::model, model.id, model.options),
                                       testing::registry());
}

class EveryModel : public ::testing::TestWithParam<Configured> {};

TEST_P(EveryModel, KeepsTheContract) {
  int passed = 0;
  for (const CheckResult& result : run_checks(subject_of(GetParam()))) {
    EXPECT_NE(result.outcome, Outcome::failed) << result.check << ": " << result.message;
    if (result.outcome == Outcome::passed) ++passed;
  }
  EXPECT_GE(passed, 8) << "most checks are for every model";
}

const std::string kSmallPoints =
    "{encoder_depths: [1, 2], encoder_dims: [8, 12], encoder_heads: [1, 2], decoder_depths: [1], "
    "decoder_dims: [12], decoder_heads: [2], patch_size: 4, mlp_ratio: 1";

/// Sizes that make the checks quick; a model that is not named here is tested as it is. Heads have
/// two channels at least for each coordinate of a place, which rotary attention needs.
std::string small(const std::string& id) {
  const std::map<std::string, std::string> options = {
      {"dlinear", "{window: 3}"},
      {"graph_gps", "{dim: 8, depth: 2, heads: 2}"},
      {"point_transformer", kSmallPoints + "}"},
      {"crossvit",
       "{preset: '', sizes: [18, 16], patch_sizes: [6, 8], dims: [4, 8], depths: [1, 2], "
       "heads: [1, 2], stages: 2, mlp_ratio: 1}"},
      {"ia_detr",
       "{decoder: plain, swin: nano, window: 2, stride: 4, dim: 8, heads: 2, hidden: 8, depth: 2, "
       "queries: 3, many_queries: 2, bias_hidden: 4}"},
      {"itransformer", "{dim: 8, depth: 2, heads: 2, hidden: 8}"},
      {"patch_tst", "{patch: 3, stride: 2, dim: 8, depth: 2, heads: 2, hidden: 8}"},
      {"resnet", "{depth: 18, stages: 1}"},
      {"segmenter", "{dim: 8, depth: 2, heads: 2, patch_size: 8, mlp_ratio: 1, decoder_depth: 2}"},
      {"seq_pair_transformer", "{dim: 8, depth: 2, heads: 2, hidden: 8}"},
      {"swin", "{preset: nano, window: 2, stages: 2}"},
      {"timeseries_transformer", "{dim: 8, depth: 2, heads: 2, hidden: 8}"},
      {"toy_transformer", "{hidden: 4}"},
      {"transformer_lm", "{dim: 8, depth: 2, heads: 2, hidden: 8, context: 6}"},
      {"transformer_xl", "{dim: 8, depth: 2, heads: 2, hidden: 8}"},
      {"vit", "{dim: 8, depth: 2, heads: 2, patch_size: 8, mlp_ratio: 1}"}};
  const auto found = options.find(id);
  return found == options.end() ? "{}" : found->second;
}

std::vector<Configured> installed() {
  std::vector<Configured> all;
  for (const std::string& id : testing::registry().catalogue().names(Kind::model)) {
    all.push_back({id, id, small(id)});
  }
  return all;
}

const Configured kConfigured[] = {
    {"graph_gps_gine_and_walks", "graph_gps",
     "{dim: 8, depth: 2, heads: 2, mpnn: gine, encoding: rwse, encoding_dim: 3, dropout: 0.1, "
     "pool: sum, head_layers: 3, head_halves: true}"},
    {"graph_gps_of_nodes_and_eigenvectors", "graph_gps",
     "{dim: 8, depth: 2, heads: 2, encoding: laplacian, encoding_dim: 3, dropout: 0.1, head: node, "
     "head_layers: 2}"},
    {"graph_gps_without_messages", "graph_gps",
     "{dim: 8, depth: 2, heads: 2, mpnn: none, head: link}"},
    {"segmenter_with_a_linear_decoder", "segmenter",
     "{dim: 8, depth: 2, heads: 2, patch_size: 4, mlp_ratio: 1, decoder: linear, size: 8, "
     "drop_path: 0.3, dropout: 0.1, attention_dropout: 0.1}"},
    {"segmenter_with_a_resnet", "segmenter",
     "{backbone: resnet, resnet: 18, stages: 1, dim: 8, heads: 2, mlp_ratio: 1, decoder_depth: 1}"},
    {"segmenter_with_swin", "segmenter",
     "{backbone: swin, swin: nano, swin_window: 2, stages: 2, dim: 8, heads: 2, mlp_ratio: 1, "
     "decoder_depth: 1}"},
    {"segmenter_with_dropout", "segmenter",
     "{dim: 8, depth: 1, heads: 2, patch_size: 8, mlp_ratio: 1, decoder_dropout: 0.1, "
     "decoder_drop_path: 0.2}"},
    {"vit_without_class_token", "vit",
     "{dim: 8, depth: 2, heads: 2, patch_size: 8, mlp_ratio: 1, pool: mean, layer_scale: 0.1, "
     "drop_path: 0.3, dropout: 0.1, attention_dropout: 0.1}"},
    {"point_transformer_of_clouds", "point_transformer", kSmallPoints + ", head: cloud}"},
    {"vit_as_deit_3", "vit",
     "{dim: 8, depth: 2, heads: 2, patch_size: 8, mlp_ratio: 1, positions: patches, "
     "drop_path_rule: constant, drop_path: 0.2, layer_scale: 0.1}"},
    {"vit_as_yam", "vit",
     "{dim: 8, depth: 2, heads: 2, patch_size: 8, mlp_ratio: 1, mlp_output_gelu: true, start: "
     "pytorch, final_norm: false, head_hidden: 6}"},
    {"vit_without_positions", "vit",
     "{dim: 8, depth: 2, heads: 2, patch_size: 8, mlp_ratio: 1, positions: none}"},
    {"vit_of_sinusoids", "vit",
     "{dim: 8, depth: 2, heads: 2, patch_size: 8, mlp_ratio: 1, positions: sinusoidal}"},
    {"patch_tst_without_norm_and_padding", "patch_tst",
     "{patch: 3, stride: 3, padding: false, dim: 8, depth: 2, heads: 2, hidden: 8, instance_norm: "
     "false, head_dropout: 0.1, attention_dropout: 0.1}"},
    {"patch_tst_with_residual_logits", "patch_tst",
     "{patch: 3, stride: 2, dim: 8, depth: 2, heads: 2, hidden: 8, residual_logits: true}"},
    {"timeseries_relative", "timeseries_transformer",
     "{dim: 8, depth: 2, heads: 2, hidden: 8, positions: relative}"},
    {"timeseries_concatenated", "timeseries_transformer",
     "{dim: 8, depth: 2, heads: 2, hidden: 8, head: concatenated}"},
    {"toy_pre_norm", "toy_transformer", "{hidden: 4, block: pre_norm}"},
    {"transformer_lm_published", "transformer_lm",
     "{preset: small, dim: 8, depth: 2, heads: 2, hidden: 8, context: 6, cutoffs: [4, 8], "
     "dropout: 0.1, attention_dropout: 0.1}"},
    {"transformer_lm_without_positions", "transformer_lm",
     "{dim: 8, depth: 1, heads: 2, positions: none, biases: none}"},
    {"transformer_lm_relative", "transformer_lm",
     "{dim: 8, depth: 2, heads: 2, hidden: 8, positions: relative, dropout: 0.1}"},
    {"transformer_xl_without_positions", "transformer_xl",
     "{dim: 8, depth: 2, heads: 2, hidden: 8, positions: none}"},
    {"transformer_xl_other_readings", "transformer_xl",
     "{dim: 8, depth: 2, heads: 2, hidden: 8, position_term: plain, biases: layer, norm: first, "
     "clamp_length: 3, cutoffs: [4, 8], dropout: 0.1}"},
    {"seq_pair_cross", "seq_pair_transformer",
     "{dim: 8, depth: 2, heads: 2, hidden: 8, wiring: cross}"},
    {"seq_pair_cross_by_content", "seq_pair_transformer",
     "{dim: 8, depth: 2, heads: 2, hidden: 8, wiring: cross, queries: content, pool: pointer}"},
};

std::string name_of(const ::testing::TestParamInfo<Configured>& model) { return model.param.name; }

INSTANTIATE_TEST_SUITE_P(Installed, EveryModel, ::testing::ValuesIn(installed()), name_of);
INSTANTIATE_TEST_SUITE_P(WithOptions, EveryModel, ::testing::ValuesIn(kConfigured), name_of);

TEST(ModelConformance, NamesTheAttentionsThatWereTriedAndThoseThatTheModelRefused) {
  const CheckResult result =
      run_check("batch", subject_of({"", "seq_pair_transformer", small("seq_pair_transformer")}));
  EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  EXPECT_THAT(result.message, ::testing::StartsWith("under standard, "));
  EXPECT_THAT(result.message, ::testing::HasSubstr("indirect"));
}

}  // namespace
}  // namespace attnlab::models_test
