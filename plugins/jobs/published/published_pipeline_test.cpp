#include "plugins/jobs/published/published_pipeline.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "tests/support/oracle_folders.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class PipelineOptions : public test::OracleFolders {
 protected:
  static json of(const std::string& kind, const std::string& name, json table = json::object()) {
    return with_pipeline(kind, "film", std::move(table), oracle(name));
  }
  template <class F>
  static std::string refusal(F&& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  // A copy of a folder with one changed member in one of its files.
  fs::path changed(const std::string& name, const std::string& file, const std::string& key,
                   const json& value) {
    const fs::path folder = scratch_ / "changed";
    fs::remove_all(folder);
    fs::copy(oracle(name), folder, fs::copy_options::recursive);
    std::ifstream in(folder / file);
    json object = json::parse(in);
    object[key] = value;
    std::ofstream(folder / file) << object.dump();
    return folder;
  }
};

TEST_F(PipelineOptions, AreTheDefaultsOfThePublishedCall) {
  const json wan = of("generate", "wan_t2v");
  EXPECT_EQ(wan["sampler"], json({{"use", "unipc"},
                                  {"steps", 50},
                                  {"shift", 3.0},
                                  {"order", 2},
                                  {"solver_type", "bh2"},
                                  {"lower_order_final", true},
                                  {"convention", "diffusers"}}));
  EXPECT_EQ(wan["frames"], 81);
  EXPECT_EQ(wan["height"], 480);
  EXPECT_EQ(wan["width"], 832);
  EXPECT_EQ(wan["guidance"], 5);
  EXPECT_EQ(wan["model"]["use"], "wan");
  EXPECT_EQ(wan["text"]["use"], "umt5");
  EXPECT_EQ(wan["weights"], json({(oracle("wan_t2v") / "transformer").string()}));
  EXPECT_FALSE(wan.contains("weights_2"));
  const fs::path experts = scratch_ / "experts";
  for (const char* layer : {"wan_t2v", "wan_a14b_t2v"})
    fs::copy(oracle(layer), experts, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const json two = with_pipeline("generate", "film", {{"sampler", "flow-euler"}}, experts);
  EXPECT_EQ(two["boundary"], 0.875);
  EXPECT_EQ(two["weights_2"], json({(experts / "transformer_2").string()}));
  const json cosmos = of("generate", "cosmos_t2w");
  EXPECT_EQ(cosmos["sampler"]["final"], "sigma_min");
  EXPECT_EQ(cosmos["loss"], json({{"use", "edm"}, {"sigma_data", 0.5}}));
  EXPECT_EQ(cosmos["signals"], json({"fps=30"}));
  EXPECT_EQ(cosmos["guidance_convention"], "nemo");
  EXPECT_FALSE(of("generate", "cosmos2_t2i").contains("signals"));
}

TEST_F(PipelineOptions, GivenBesideItWin) {
  const json wan = of("generate", "wan_t2v",
                      {{"steps", 7},
                       {"guidance", 3.0},
                       {"frames", 9},
                       {"max_tokens", 64},
                       {"sampler", {{"shift", 5.0}}},
                       {"tokenizer", "wan"},
                       {"weights", "mine.safetensors"}});
  EXPECT_EQ(wan["sampler"]["steps"], 7);
  EXPECT_EQ(wan["sampler"]["shift"], 5.0);
  EXPECT_EQ(wan["sampler"]["use"], "unipc");
  EXPECT_EQ(wan["guidance"], 3.0);
  EXPECT_EQ(wan["frames"], 9);
  EXPECT_EQ(wan["words"]["max_length"], 64);
  EXPECT_EQ(wan["tokenizer"]["use"], "wan");
  EXPECT_EQ(wan["weights"], json({(oracle("wan_t2v") / "transformer").string(), "mine.safetensors"}));
  const json other = of(
      "generate", "wan_t2v",
      {{"model", {{"use", "dit"}}}, {"weights", "dit.safetensors"}, {"loss", "edm"}, {"sampler", "euler"}});
  EXPECT_EQ(other["model"], json({{"use", "dit"}}));
  EXPECT_EQ(other["weights"], "dit.safetensors");
  EXPECT_EQ(other["loss"], "edm");
  EXPECT_EQ(other["sampler"], "euler");
  EXPECT_EQ(of("generate", "cosmos_t2w", {{"fps", 24}})["signals"], json({"fps=24"}));
}

// diffusers applies no guidance for any scale up to 1, in NVIDIA's convention too.
TEST_F(PipelineOptions, GuidanceUpToOneIsNone) {
  EXPECT_EQ(of("generate", "wan_t2v", {{"guidance", 0.5}})["guidance"], 1);
  EXPECT_EQ(of("generate", "cosmos_t2w", {{"guidance", 1.0}})["guidance"], 0);
  EXPECT_EQ(of("generate", "cosmos_t2w", {{"guidance", 1.5}})["guidance"], 1.5);
  const json own = of("generate", "cosmos_t2w", {{"guidance", 1.0}, {"guidance_convention", "nemo"}});
  EXPECT_EQ(own["guidance"], 1.0);
}

TEST_F(PipelineOptions, OfTrainingAreItsNetworks) {
  const json train = of("train", "wan_t2v", {{"lora", "rank=4"}});
  EXPECT_EQ(train["model"], json({{"use", "wan"}}));
  EXPECT_EQ(train["loss"]["use"], "flow");
  EXPECT_FALSE(train.contains("sampler"));
  const json encode = of("encode", "wan_i2v");
  EXPECT_EQ(encode["scale"], "none");
  EXPECT_EQ(encode["sigma_data"], 1.0);
  EXPECT_EQ(encode["first_frame"], true);
  EXPECT_EQ(encode["image_encoder"]["use"], "clip-vision");
  EXPECT_EQ(of("encode", "cosmos_t2w")["sigma_data"], 0.5);
  EXPECT_EQ(of("encode", "wan_t2v")["first_frame"], false);
  EXPECT_EQ(
      of("train-tokenizer", "cosmos_t2w"),
      json({{"tokenizer", {{"use", "cosmos"}}}, {"weights", {(oracle("cosmos_t2w") / "vae").string()}}}));
  const auto after = [](const std::set<std::string>& before) {
    return with_pipeline("generate", "film", json::object(), oracle("wan_t2v"), before);
  };
  const json trained = after({"train", "encode", "shard"}), decoded = after({"train-tokenizer", "shard"});
  EXPECT_FALSE(trained.contains("model") || trained.contains("weights") || trained.contains("text"));
  EXPECT_EQ(trained["tokenizer"]["use"], "wan");
  EXPECT_FALSE(decoded.contains("tokenizer"));
  EXPECT_EQ(decoded["model"]["use"], "wan");
  EXPECT_EQ(trained["guidance"], 5);
}

TEST_F(PipelineOptions, ThatCannotBeSaidAreRefusedByName) {
  EXPECT_THAT(refusal([&] { with_pipeline("generate", "film", json::object(), scratch_ / "none"); }),
              HasSubstr("there is no such folder"));
  EXPECT_THAT(refusal([&] { with_pipeline("generate", "film", json::object(), oracle("wan_i2v")); }),
              HasSubstr("this pipeline begins with a picture or a video; give image = \"FILE\""));
  EXPECT_THAT(refusal([&] { with_pipeline("generate", "film", json::object(), scratch_); }),
              HasSubstr("model_index.json is missing"));
  const auto said = [&](const std::string& file, const std::string& key, const json& value) {
    const auto folder = changed("wan_t2v", file, key, value);
    return refusal([&] { with_pipeline("generate", "film", json::object(), folder); });
  };
  EXPECT_THAT(said("model_index.json", "_class_name", "FluxPipeline"),
              HasSubstr("'FluxPipeline' are not known; known: Cosmos2"));
  EXPECT_THAT(said("model_index.json", "transformer", {"diffusers", "Other3DModel"}),
              HasSubstr("transformer of class 'Other3DModel' is not known"));
  EXPECT_THAT(said("scheduler/scheduler_config.json", "prediction_type", "epsilon"),
              HasSubstr("scheduler_config.json: UniPCMultistepScheduler with prediction_type = \"epsilon\""));
  EXPECT_THAT(said("scheduler/scheduler_config.json", "flow_shift", "much"),
              HasSubstr("flow_shift = \"much\" has the wrong type"));
  EXPECT_THAT(said("scheduler/scheduler_config.json", "_class_name", "DDIMScheduler"),
              HasSubstr("the scheduler DDIMScheduler is not known"));
  const auto folder = changed("wan_a14b_t2v", "model_index.json", "boundary_ratio", 0.875);
  fs::copy(oracle("wan_t2v") / "scheduler", folder / "scheduler");
  EXPECT_THAT(refusal([&] { with_pipeline("train", "dit", json::object(), folder); }),
              HasSubstr("two experts, and a train job trains one"));
  EXPECT_EQ(with_pipeline("train", "dit", {{"weights", "x"}}, folder)["weights"], json({"x"}));
}

TEST_F(PipelineOptions, OfAnIncompleteFolderNameEveryMissingPart) {
  const auto said = [](const fs::path& folder, const json& table = json::object()) {
    return refusal([&] { with_pipeline("generate", "film", table, folder); });
  };
  EXPECT_THAT(
      said(oracle("wan_a14b_t2v")),
      HasSubstr("text_encoder/, vae/, tokenizer/, scheduler/ are missing; is the download complete?"));
  EXPECT_THAT(said(oracle("wan_a14b_t2v"), {{"sampler", "unipc"}}),
              HasSubstr("text_encoder/, vae/, tokenizer/ are missing"));
  const fs::path folder = changed("wan_t2v", "model_index.json", "boundary_ratio", nullptr);
  EXPECT_EQ(said(folder), "no error");
  fs::remove(folder / "transformer/config.json");
  EXPECT_THAT(said(folder), HasSubstr("transformer/config.json is missing; is the download complete?"));
  EXPECT_EQ(said(folder, {{"model", "dit"}, {"weights", "dit.safetensors"}, {"loss", "flow"}}), "no error");
  fs::remove_all(folder / "tokenizer");
  EXPECT_THAT(said(folder), HasSubstr("transformer/config.json, tokenizer/ are missing"));
  EXPECT_THAT(refusal([&] { published_component(folder / "scheduler"); }),
              HasSubstr("neither a pipeline's folder (model_index.json) nor a network's (config.json)"));
}

}  // namespace
}  // namespace kinora::core
