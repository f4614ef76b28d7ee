#include "core/torch/weights/weights.hpp"

#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/torch/weights/published.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "core/torch/weights/weights_complaint.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/train-tokenizer/video_features.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Parameter column(const std::string& name, std::vector<int64_t> shape, std::vector<int64_t> parts,
                 int64_t shard, int64_t shards) {
  Parameter p;
  p.name = name, p.shape = std::move(shape), p.parts = std::move(parts), p.role = KINORA_ROLE_COLUMN,
  p.shard = shard, p.shards = shards;
  return p;
}

// Two tensor ranks times two FSDP ranks: each holds half of the flat local piece of a fused qkv and a whole
// bias.
struct Rank {
  Parameters parameters;
  std::vector<Leaf> leaves;
  Rank(int64_t tensor, int64_t fsdp) {
    parameters = {column("qkv", {12, 5}, {4, 4, 4}, tensor, 2), column("bias", {3}, {3}, 0, 1)};
    parameters[1].role = KINORA_ROLE_WHOLE;
    Leaf l;  // 30 + 3 numbers, the first 17 of them on rank 0 of the FSDP group
    l.tensor = at::zeros({17}, at::kDouble).set_requires_grad(true);
    l.pieces = fsdp ? std::vector<Piece>{{1, 17, 13, 0}, {2, 0, 3, 13}}
                    : std::vector<Piece>{{1, 0, 17, 0}, {2, 0, 0, 17}};
    leaves.push_back(l);
  }
};

TEST(Weights, ReachEveryPiece) {
  const NamedTensors whole{{"qkv", at::randn({12, 5}, at::kDouble)}, {"bias", at::randn({3}, at::kDouble)}};
  for (const int64_t tensor : {0, 1})
    for (const int64_t fsdp : {0, 1}) {
      Rank rank(tensor, fsdp);
      load_values(rank.parameters, rank.leaves, whole);
      const auto flat = at::cat({slice(rank.parameters[0], whole.at("qkv")).flatten(), whole.at("bias")});
      const auto want =
          fsdp ? at::cat({flat.narrow(0, 17, 16), at::zeros({1}, at::kDouble)}) : flat.narrow(0, 0, 17);
      EXPECT_TRUE(at::equal(rank.leaves[0].tensor, want)) << tensor << fsdp;
    }
}

// bfloat16 in the file, float32 here: only the part held by this rank is converted.
TEST(Weights, AreConvertedWhereTheyAreHeld) {
  Parameters parameters{column("a", {8, 3}, {8}, 1, 2)};
  std::vector<Leaf> leaves{{"a", at::zeros({4, 3}), false, false, {{1, 0, 12, 0}}}};
  const auto a = at::randn({8, 3}).to(at::kBFloat16);
  load_values(parameters, leaves, {{"a", a}});
  EXPECT_TRUE(at::equal(leaves[0].tensor, a.narrow(0, 4, 4).to(at::kFloat)));
}

TEST(Weights, ConvertDtypesAndGoThroughAFile) {
  Parameters parameters{column("a", {2, 2}, {2}, 0, 1)};
  std::vector<Leaf> leaves{{"a", at::zeros({2, 2}).set_requires_grad(true), false, false, {{1, 0, 4, 0}}}};
  const auto file = std::filesystem::temp_directory_path() /
                    ("kinora-weights-" + std::to_string(getpid()) + ".safetensors");
  const auto a = at::randn({2, 2}).to(at::kBFloat16);
  write_tensors(file, {{"a", a.t()}, {"extra", at::ones({1})}});
  const auto opened = or_throw(Safetensors::open(file));
  const auto report = load_values(parameters, leaves, tensors_of(opened),
                                  {.may_ignore = [](const std::string& name) { return name == "extra"; }});
  EXPECT_TRUE(at::equal(leaves[0].tensor, a.t().to(at::kFloat)));
  EXPECT_THAT(report.unexpected, ElementsAre("extra"));
  EXPECT_TRUE(at::equal(read_tensors(file).at("a"), a.t()));
  std::filesystem::remove(file);
}

TEST(Weights, ErrorsListEverythingThatDoesNotFitAndCopyNothing) {
  Parameters parameters{column("blocks.0.q.weight", {2, 2}, {2}, 0, 1),
                        column("blocks.0.k.weight", {2, 2}, {2}, 0, 1), column("head", {2}, {2}, 0, 1)};
  std::vector<Leaf> leaves;
  for (kinora_param id = 1; id <= 3; ++id) {
    const auto& p = parameters[static_cast<size_t>(id - 1)];
    leaves.push_back(
        {p.name, at::zeros(p.shape).set_requires_grad(true), false, false, {{id, 0, p.numel(), 0}}});
  }
  const NamedTensors given{{"blocks.0.q.weigth", at::ones({2, 2})},
                           {"blocks.0.k.weight", at::ones({2, 3})},
                           {"head", at::ones({2})},
                           {"other", at::ones({1})}};
  try {
    load_values(parameters, leaves, given);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
    EXPECT_THAT(e.what(), HasSubstr("'blocks.0.k.weight' is [2, 3] in the file and [2, 2] in the model"));
    EXPECT_THAT(e.what(), HasSubstr("1 missing: 'blocks.0.q.weight', did you mean 'blocks.0.q.weigth'?"));
    EXPECT_THAT(e.what(), HasSubstr("2 unexpected: 'blocks.0.q.weigth', 'other'"));
  }
  EXPECT_EQ(leaves[2].tensor.sum().item<float>(), 0);
}

TEST(Weights, SayFamiliesOfNamesOnceAndTheNearestByDottedParts) {
  WeightsProblems p;
  std::vector<std::string> parameters;
  for (int i = 0; i < 30; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    p.missing.push_back(block + "attn1.to_q.weight");
    p.unexpected.push_back(block + "self_attn.q.weight");
    p.unexpected.push_back(block + "attn1.to_q.weight_scale");
    parameters.push_back(block + "ffn.net.2.bias");
  }
  p.unexpected.push_back("blocks.3.fn.net.2.bias");
  const auto text = complaint(p, parameters);
  EXPECT_THAT(text, HasSubstr("30 missing: 'blocks.*.attn1.to_q.weight' (30 times), did you mean "
                              "'blocks.0.attn1.to_q.weight_scale'?"));
  EXPECT_THAT(text, HasSubstr("61 unexpected: "));
  EXPECT_THAT(text, HasSubstr("'blocks.*.self_attn.q.weight' (30 times)"));
  EXPECT_THAT(text, HasSubstr("'blocks.3.fn.net.2.bias' (nearest parameter: 'blocks.3.ffn.net.2.bias')"));
  EXPECT_EQ(text.find('\n'), text.npos);
  EXPECT_EQ(nearest_name("a.b.c", {"x.y.z", "d.e.f"}), "");
  EXPECT_EQ(nearest_name("net.blocks.1.q.weight", {"blocks.2.q.weight", "blocks.1.q.weight"}),
            "blocks.1.q.weight");
}

TEST(Weights, NeedOnlyWhatMustBeThere) {
  Parameters parameters{column("q.weight", {2}, {2}, 0, 1), column("q.lora_A.weight", {2}, {2}, 0, 1)};
  std::vector<Leaf> leaves{{"q", at::zeros({2}), false, false, {{1, 0, 2, 0}}},
                           {"a", at::full({2}, 7.0F), false, false, {{2, 0, 2, 0}}}};
  LoadOptions how;
  how.may_miss = [](const std::string& name) { return name.find("lora") != name.npos; };
  load_values(parameters, leaves, {{"q.weight", at::ones({2})}}, how);
  EXPECT_EQ(leaves[0].tensor.sum().item<float>(), 2);
  EXPECT_EQ(leaves[1].tensor.sum().item<float>(), 14);
  EXPECT_THROW(load_values(parameters, leaves, {{"q.lora_A.weight", at::ones({2})}}, how), Error);
}

// Reading it anyway would kill the process, since its pages are gone.
TEST(Weights, OfAFileThatBecameShorterAreRefused) {
  const auto file =
      std::filesystem::temp_directory_path() / ("kinora-cut-" + std::to_string(getpid()) + ".safetensors");
  write_tensors(file, {{"a", at::ones({10000})}, {"b", at::ones({1})}});
  const auto opened = or_throw(Safetensors::open(file));
  EXPECT_EQ(as_tensor(opened, *opened.find("a")).sum().item<float>(), 10000);
  std::filesystem::resize_file(file, 8192);
  EXPECT_THAT(test::refusal([&] { as_tensor(opened, *opened.find("a")); }),
              HasSubstr(file.string() + ": the file shrank while it was in use"));
  write_tensors(file, {{"a", at::ones({1})}});
  EXPECT_THAT(test::refusal([&] { tensors_of(opened); }), HasSubstr("shrank")) << "a replaced file";
  std::filesystem::remove(file);
}

TEST(Weights, OfAPipeAreRefusedWithoutWaitingForItsWriter) {
  const auto pipe = std::filesystem::temp_directory_path() / ("kinora-" + std::to_string(getpid()) + ".jit");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto said = HasSubstr(pipe.string() + ": not a regular file but a pipe");
  EXPECT_THAT(test::refusal([&] { read_archive(pipe); }), said);
  EXPECT_THAT(test::refusal([&] { ScriptModel{pipe}; }), said);
  std::filesystem::remove(pipe);
}

// Bytes of mapped files in this process's memory.
int64_t resident_files() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("RssFile", 0) == 0) return std::stoll(line.substr(line.find(':') + 1)) * 1024;
  return -1;
}

TEST(Weights, OfAFileDoNotStayInMemory) {
  constexpr int64_t kTensors = 24, kEach = int64_t{1} << 20;  // 4 MiB each
  const auto file =
      std::filesystem::temp_directory_path() / ("kinora-lazy-" + std::to_string(getpid()) + ".safetensors");
  Parameters parameters;
  NamedTensors tensors;
  std::vector<Leaf> leaves;
  for (int64_t i = 0; i < kTensors; ++i) {
    parameters.push_back(column("p" + std::to_string(i), {kEach}, {kEach}, 0, 1));
    leaves.push_back({parameters.back().name, at::zeros({kEach}), false, false, {{i + 1, 0, kEach, 0}}});
    tensors[parameters.back().name] = at::full({kEach}, static_cast<double>(i), at::kFloat);
  }
  write_tensors(file, tensors);
  tensors.clear();
  const auto opened = or_throw(Safetensors::open(file));
  const int64_t before = resident_files();
  const auto find = [&](const std::string& name) { return as_tensor(opened, *opened.find(name)); };
  load_values(parameters, leaves, opened.names(), find);
  EXPECT_LT(resident_files() - before, 3 * 4 * kEach) << "of a file of " << kTensors * 4 * kEach;
  EXPECT_EQ(leaves[7].tensor[5].item<float>(), 7);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace kinora::core
