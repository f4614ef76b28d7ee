// Each folder alone: what transformers and diffusers compute with the models that they saved
// (tests/oracle/make_folder_fixtures.py), and what is said where a folder and options do not go together.
#include <fstream>
#include <sstream>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/log.hpp"
#include "core/run/folder_options.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

fs::path oracle_folder(const std::string& name) { return fs::path(KINORA_TEST_DATA) / "oracle" / name; }

Network network_of(const std::string& id, const json& options, const at::Device& device = at::kCPU) {
  const Component component = or_throw(test::plugins().open(id));
  return Network(component, or_throw(Options::make(*component.spec, options)),
                 ChainOptions{.device = device, .dtype = at::kDouble});
}

// The options of a component whose weights are this folder.
json options_for(const std::string& id, const fs::path& folder, const json& given = json::object()) {
  const auto& spec = *or_throw(test::plugins().find(id));
  return with_config(spec, given, config_of({folder}, spec));
}

at::Tensor in_double(const at::Tensor& t) { return t.is_floating_point() ? t.to(at::kDouble) : t; }

NamedTensors computed(Network& network, const ComponentSpec& spec, const NamedTensors& in) {
  const at::NoGradGuard off;
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = 1;
  network.chain().begin(pass);
  if (spec.kind == "tokenizer") {
    const at::Tensor latent = network.encode(in.at("video"));
    return {{"latent", latent}, {"video", network.decode(latent)}};
  }
  NamedTensors out;
  const auto made = network.forward(in);
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i].defined()) out[spec.outputs[i].name] = made[i];
  return out;
}

class Folder : public testing::TestWithParam<std::string> {};

TEST_P(Folder, AloneComputesWhatItsPeerDoes) {
  const test::Oracle oracle("folders.safetensors", GetParam());
  const std::string id = oracle.options.at("component");
  const fs::path folder = oracle_folder(oracle.options.at("folder"));
  Network network = network_of(id, options_for(id, folder));
  network.load(folder);
  NamedTensors in;
  for (const auto& [name, t] : oracle.under("in.")) in[name] = in_double(t);
  const auto out = computed(network, *or_throw(test::plugins().find(id)), in);
  const auto wanted = oracle.under("out.");
  ASSERT_FALSE(wanted.empty());
  for (const auto& [name, t] : wanted) {
    ASSERT_TRUE(out.count(name)) << name;
    EXPECT_LT(test::difference(out.at(name), t), 1e-6) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(OfPeers, Folder,
                         testing::Values("bert", "bert_mlm", "bert_tf", "clip_text", "clip_text_4",
                                         "clip_text_projected", "clip_vision", "clip_vision_projected",
                                         "clip_as_text", "clip_as_vision", "t5", "t5_whole", "umt5",
                                         "wan_t2v", "wan_i2v", "cosmos_t2w", "cosmos2_v2w", "wan_vae",
                                         "cosmos_vae"),
                         [](const auto& info) { return info.param; });

class Folders : public testing::Test {
 protected:
  // The lines that are logged meanwhile.
  template <class F>
  std::string logged(F act) {
    const fs::path file = run_.folder() / "log";
    fs::remove(file);
    {
      const auto log = or_throw(LogFile::open(file));
      const std::string before = log_level();
      or_throw(set_log_level("info"));
      act();
      or_throw(set_log_level(before));
    }
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  template <class F>
  static std::string refused(F act) {
    try {
      act();
    } catch (const Error& e) {
      return e.what();
    }
    return "not refused";
  }
  std::string misfit(const std::string& id, const fs::path& weights, const json& options) {
    return refused([&] { network_of(id, options, at::kMeta).require_weights({weights}); });
  }
  // A file with the parameters of these options, one byte each, none of which is written.
  fs::path empty_weights(const std::string& id, const json& options) {
    const fs::path file = run_.folder() / "weights.safetensors";
    Network network = network_of(id, options, at::kMeta);
    json header;
    int64_t end = 0;
    for (const auto& p : network.chain().parameters()) {
      header[p.name] = {{"dtype", "U8"}, {"shape", p.shape}, {"data_offsets", {end, end + p.numel()}}};
      end += p.numel();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const auto size = static_cast<uint64_t>(text.size());
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&size), 8) << text;
    fs::resize_file(file, 8 + text.size() + static_cast<uint64_t>(end));
    return file;
  }
  test::ScratchRun run_;
};

TEST_F(Folders, OptionsThatAreGivenWinAndAreNamed) {
  const fs::path folder = oracle_folder("folders/bert");
  json options;
  const auto said = logged([&] {
    options =
        options_for("model/minilm", folder, {{"max_positions", 7}, {"heads", 4}, {"layer_norm_eps", 1e-5}});
  });
  EXPECT_EQ(options.at("max_positions"), 7);
  EXPECT_EQ(options.at("layers"), 2);
  EXPECT_THAT(said, AllOf(HasSubstr("bert/config.json"), HasSubstr("max_positions = 7, not 9"),
                          Not(HasSubstr("heads = "))));
  EXPECT_THAT(
      misfit("model/minilm", folder, options),
      AllOf(HasSubstr("config.json says max_positions = 9, and the options say max_positions = 7; of "),
            HasSubstr("1 of other shapes: 'embeddings.position_embeddings.weight' is [9, 8] in the "
                      "file and [7, 8] in the model")));
}

// What AutoencoderKLWan's configuration has since there is a second one.
TEST_F(Folders, AnOlderWriterMeansTheSame) {
  const auto& spec = *or_throw(test::plugins().find("tokenizer/wan"));
  const fs::path file = oracle_folder("wan_t2v/vae") / "config.json";
  json older = json::parse(std::ifstream(file));
  const size_t keys = older.size();
  for (const char* key : {"decoder_base_dim", "is_residual", "in_channels", "out_channels", "patch_size",
                          "scale_factor_spatial", "scale_factor_temporal", "clip_output"})
    older.erase(key);
  EXPECT_LE(older.size() + 4, keys);
  std::ofstream(run_.folder() / "config.json") << older;
  const auto options = [&](const fs::path& of) {
    return or_throw(Options::make(spec, read_config(of, spec, true)));
  };
  EXPECT_EQ(options(run_.folder() / "config.json").canonical(), options(file).canonical());
}

TEST_F(Folders, WhatAFormatHasAndNobodyUsesIsOneLine) {
  const auto lines = [&](const std::string& id, const char* name) {
    const fs::path folder = oracle_folder(std::string("folders/") + name);
    Network network = network_of(id, options_for(id, folder));
    return logged([&] { network.load(folder); });
  };
  EXPECT_THAT(
      lines("model/minilm", "bert"),
      HasSubstr("2 of 39 tensors have no use in model/minilm, the first of them 'pooler.dense.bias'"));
  const auto old = lines("model/clip-text", "clip_text_4");
  EXPECT_THAT(old, HasSubstr("1 of 37 tensors have no use in model/clip-text, the first of them "
                             "'text_model.embeddings.position_ids'"));
  EXPECT_EQ(std::count(old.begin(), old.end(), '\n'), 1) << old;
  EXPECT_EQ(lines("model/clip-text", "clip_text"), "");
}

TEST_F(Folders, AnotherNetworkWithTheSameNamesIsRefused) {
  EXPECT_THAT(refused([&] { options_for("model/t5", oracle_folder("folders/umt5")); }),
              AllOf(HasSubstr("umt5/config.json: option 'model_type' of model/t5"), HasSubstr("\"umt5\"")));
  const fs::path file = run_.folder() / "config.json";
  std::ofstream(file) << R"({"model_type": "roberta"})";
  EXPECT_THAT(refused([&] { read_config(file, *or_throw(test::plugins().find("model/minilm"))); }),
              HasSubstr("the string \"roberta\""));
}

TEST_F(Folders, AFileThatIsNamedInAFolderSaysThatTheFolderWouldDo) {
  const fs::path file = oracle_folder("wan_t2v/transformer") / "diffusion_pytorch_model.safetensors";
  EXPECT_THAT(misfit("model/wan", file, json::object()),
              AllOf(HasSubstr("config.json says "), HasSubstr("num_layers = 2"), HasSubstr("num_layers = 40"),
                    HasSubstr("; name the folder, and its configuration counts")));
}

TEST_F(Folders, APublishedSizeIsNamed) {
  const fs::path small = empty_weights("model/wan", {{"size", "1.3B"}});
  const auto said = misfit("model/wan", small, {{"size", "14B"}});
  EXPECT_THAT(
      said, HasSubstr("these are the weights of size = \"1.3B\", and the options say size = \"14B\"; of 825 "
                      "tensors and 1095 parameters: "));
  EXPECT_THAT(said,
              AllOf(HasSubstr("270 missing: "), HasSubstr(" and 24 more"), HasSubstr("of other shapes: ")));
  EXPECT_LT(said.size(), 1500u) << said;
  EXPECT_THAT(misfit("model/wan", small, {{"num_layers", 30}}),
              HasSubstr("these are the weights of size = \"1.3B\", and the options say no size"));
  EXPECT_THAT(misfit("model/t5", empty_weights("model/t5", {{"size", "t5-small"}}), {{"size", "t5-base"}}),
              HasSubstr("these are the weights of size = \"t5-small\""));
}

// "model/wan" in the folder of a Cosmos transformer.
TEST_F(Folders, AnotherClassIsNamed) {
  const auto said = misfit("model/wan", oracle_folder("cosmos_t2w/transformer"),
                           {{"num_layers", 2}, {"num_attention_heads", 2}, {"attention_head_dim", 12}});
  EXPECT_THAT(said, HasSubstr("their config.json says that they are a CosmosTransformer3DModel's"));
  EXPECT_LT(said.size(), 1500u) << said;
}

}  // namespace
}  // namespace kinora::core
