#include "plugins/jobs/published/published_pipeline.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "core/io/contents.hpp"
#include "kinora/error.hpp"
#include "tests/support/oracle_folders.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
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
  template <class F>
  std::string logged(F&& f) {
    const fs::path file = scratch_ / "log";
    fs::remove(file);
    {
      const auto log = or_throw(LogFile::open(file));
      f();
    }
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
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
  EXPECT_THAT(cosmos["negative"], testing::StartsWith("The video captures a series of frames"));
  EXPECT_EQ(cosmos["negative"].get<std::string>().size(), 538U);
  EXPECT_EQ(of("generate", "cosmos_t2w", {{"negative", ""}})["negative"], "");
  EXPECT_FALSE(wan.contains("negative"));
  EXPECT_FALSE(of("generate", "cosmos2_t2i").contains("signals"));
  EXPECT_FALSE(wan.contains("condition_frames"));
}

// NVIDIA's configuration; diffusers' only if asked for.
TEST_F(PipelineOptions, OfCosmosPredict2CountFramesAsPositions) {
  const json cosmos = of("generate", "cosmos2_v2w", {{"image", "a.png"}});
  EXPECT_EQ(cosmos["model"]["base_fps"], 0);
  EXPECT_FALSE(cosmos.contains("signals"));
  EXPECT_EQ(cosmos["condition_frames"], -1);
  EXPECT_EQ(of("train", "cosmos2_v2w")["model"]["base_fps"], 0);
  const json diffusers =
      of("generate", "cosmos2_v2w", {{"image", "a.png"}, {"model", {{"base_fps", 24}}}, {"fps", 10}});
  EXPECT_EQ(diffusers["signals"], json({"fps=10"}));
  EXPECT_EQ(of("generate", "cosmos_t2w")["model"]["base_fps"], 24);
}

// The positions of Cosmos Predict 1 are scaled by the rate, in training by that of each clip.
TEST_F(PipelineOptions, OfCosmosPredict1KeepTheRateOfEachClip) {
  EXPECT_EQ(of("encode", "cosmos_t2w")["signals"], json({"fps"}));
  EXPECT_EQ(of("encode", "cosmos_t2w", {{"signals", {"camera", "fps"}}})["signals"], json({"camera", "fps"}));
  EXPECT_FALSE(of("encode", "cosmos_t2w", {{"frames", 1}}).contains("signals"));
  EXPECT_FALSE(of("encode", "cosmos2_v2w").contains("signals"));
  EXPECT_FALSE(of("encode", "wan_t2v").contains("signals"));
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
  EXPECT_EQ(train["loss"],
            json({{"use", "flow"}, {"timestep_scale", 1000.0}, {"whole_timesteps", true}, {"shift", 3.0}}));
  EXPECT_EQ(train["sampler"]["shift"], 3.0);
  EXPECT_EQ(train["sampler"]["steps"], 12) << "the pictures of sample_every have their usual steps";
  EXPECT_EQ(of("train", "wan_t2v", {{"sample_steps", 5}})["sampler"]["steps"], 5);
  EXPECT_EQ(of("train", "wan_t2v", {{"loss", {{"shift", 8.0}}}})["loss"]["shift"], 8.0);
  const json encode = of("encode", "wan_i2v");
  EXPECT_EQ(encode["scale"], "none");
  EXPECT_EQ(encode["sigma_data"], 1.0);
  EXPECT_EQ(encode["first_frame"], true);
  EXPECT_EQ(encode["image_encoder"]["use"], "clip-vision");
  EXPECT_EQ(encode["last_frame"], false);
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
  const json distilled = after({"train", "distill", "encode"});
  EXPECT_FALSE(distilled.contains("sampler")) << "the distill job's, which the run's reader takes";
  EXPECT_FALSE(distilled.contains("model"));
  EXPECT_EQ(distilled["guidance"], 1);
}

// An option or an earlier job replaces one part, and the other parts stay.
TEST_F(PipelineOptions, KeepTheRestOfWhatIsReplaced) {
  const json euler = of("generate", "wan_t2v", {{"sampler", "flow-euler"}});
  EXPECT_EQ(euler["sampler"], json({{"use", "flow-euler"}, {"steps", 50}, {"shift", 3.0}}));
  EXPECT_EQ(of("generate", "wan_t2v",
               {{"sampler", {{"use", "flow-euler"}, {"shift", 7.0}}}, {"steps", 9}})["sampler"],
            json({{"use", "flow-euler"}, {"steps", 9}, {"shift", 7.0}}));
  const json heun = of("generate", "cosmos_t2w", {{"sampler", "edm-heun"}});
  EXPECT_EQ(
      heun["sampler"],
      json({{"use", "edm-heun"}, {"steps", 36}, {"sigma_min", 0.002}, {"sigma_max", 80.0}, {"rho", 7.0}}));
  const json encode = with_pipeline("encode", "latents", {{"max_tokens", 64}}, oracle("wan_t2v"),
                                    {"train-tokenizer", "shard"});
  EXPECT_FALSE(encode.contains("tokenizer") || encode.contains("tokenizer_weights"))
      << "the trained tokenizer, not the published one";
  EXPECT_EQ(encode["text"]["use"], "umt5");
  EXPECT_EQ(encode["words"]["max_length"], 64);
}

// The job that has the texts says what stands for none: the encode job if there is one.
TEST_F(PipelineOptions, SayWhatNoTextIs) {
  EXPECT_EQ(of("encode", "wan_t2v")["encode_empty"], true);
  EXPECT_EQ(of("generate", "wan_t2v")["encode_negative"], true);
  EXPECT_FALSE(with_pipeline("generate", "film", json::object(), oracle("wan_t2v"), {"train", "encode"})
                   .contains("encode_negative"));
}

TEST_F(PipelineOptions, SayHowGivenFramesEnter) {
  const json ti2v = with_pipeline("train", "dit", json::object(),
                                  changed("wan_t2v", "model_index.json", "expand_timesteps", true));
  EXPECT_EQ(ti2v["condition_frames"], json({0, 1}));
  EXPECT_FALSE(of("train", "wan_t2v").contains("condition_frames"));
  const json second = of("train", "cosmos2_v2w");
  EXPECT_EQ(second["condition_frames"], json({1}));
  EXPECT_EQ(second["condition_sigma"], 0);
  const fs::path folder =
      changed("cosmos_t2w", "model_index.json", "_class_name", "CosmosVideoToWorldPipeline");
  for (const char* kind : {"train", "generate"})
    EXPECT_EQ(with_pipeline(kind, "job", {{"image", "x.png"}}, folder)["condition_timestep"], "shared")
        << kind;
}

class PipelineExperts : public PipelineOptions {
 protected:
  fs::path folder() const {
    const fs::path out = scratch_ / "experts";
    for (const char* layer : {"wan_t2v", "wan_a14b_t2v"})
      fs::copy(oracle(layer), out, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    return out;
  }
  static json trained(const fs::path& folder, json table) {
    return with_pipeline("train", "dit", std::move(table), folder);
  }
};

TEST_F(PipelineExperts, LearnTheirSideOfTheBoundary) {
  const fs::path of = folder();
  for (const bool high : {true, false}) {
    const std::string part = high ? "transformer" : "transformer_2";
    const json by_name = trained(of, {{"expert", high ? "high" : "low"}}),
               by_weights = trained(of, {{"weights", (of / part).string() + "/"}});
    EXPECT_EQ(by_name, by_weights);
    EXPECT_EQ(by_name["weights"], json({(of / part).string()}));
    EXPECT_EQ(by_name["loss"]["sigma_min"], high ? 0.875 : 0);
    EXPECT_EQ(by_name["loss"]["sigma_max"], high ? 1 : 0.875);
    EXPECT_EQ(by_name["loss"]["shift"], 3.0);
    for (const double level : by_name["validation_sigmas"]) EXPECT_EQ(level > 0.875, high);
  }
  const json both = trained(of, {{"expert", "both"}, {"lora_rank", 4}});
  ASSERT_EQ(both.size(), 2);
  for (const size_t low : {0, 1}) {
    json one = trained(of, {{"expert", low ? "low" : "high"}, {"lora_rank", 4}});
    one["name"] = low ? "dit-low" : "dit-high";
    EXPECT_EQ(both[low], one);
  }
  EXPECT_EQ(trained(of, {{"expert", "low"}, {"weights", "x"}})["weights"],
            json({(of / "transformer_2").string(), "x"}));
}

TEST_F(PipelineExperts, CountForTheIdentityOfAJobByTheirContents) {
  const fs::path of = folder();
  const auto counted = [&](const fs::path& given) {
    Contents contents(scratch_ / "digests.json");
    json options{{"pipeline", given.string()}, {"steps", 3}};
    count_pipeline(contents, options);
    return options;
  };
  const json before = counted(of);
  EXPECT_EQ(before["steps"], 3);
  ASSERT_EQ(before["pipeline"].size(), 3);
  EXPECT_EQ(before["pipeline"][0], 0.875);
  std::ofstream(of / "transformer_2/more.json") << "{}";
  const json after = counted(of);
  EXPECT_EQ(after["pipeline"][1], before["pipeline"][1]);
  EXPECT_NE(after["pipeline"][2], before["pipeline"][2]);
  EXPECT_EQ(counted(oracle("wan_t2v"))["pipeline"], "") << "the job has the options that come from it";
  EXPECT_EQ(counted("nowhere")["pipeline"], "nowhere");
}

// A flow's level s is sigma = s / (1 - s) of a loss in EDM's unit.
TEST_F(PipelineExperts, KeepTheirSideOfTheBoundaryWithAnotherLoss) {
  const fs::path of = folder();
  json low;
  const std::string said = logged([&] {
    low = trained(of, {{"expert", "low"}, {"loss", "rectified-flow"}});
  });
  EXPECT_EQ(low["loss"], json({{"use", "rectified-flow"}, {"sigma_max", 7.0}}));
  const std::vector<double> levels = low["validation_sigmas"];
  ASSERT_EQ(levels.size(), 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(levels[i], 7.0 * (i + 1) / (32 - 7.0 * (i + 1)), 1e-12);
  EXPECT_THAT(said,
              HasSubstr("loss = \"rectified-flow\" (\"flow\", without the pipeline's loss.shift = 3.0"));
  const json high = trained(of, {{"expert", "high"}, {"loss", "rectified-flow"}});
  EXPECT_EQ(high["loss"], json({{"use", "rectified-flow"}, {"sigma_min", 7.0}}));
  const json own = trained(of, {{"expert", "low"}, {"loss", {{"use", "edm"}, {"sigma_max", 2}}}});
  EXPECT_EQ(own["loss"], json({{"use", "edm"}, {"sigma_max", 2}}));
  EXPECT_FALSE(own.contains("validation_sigmas"));
  EXPECT_THAT(logged([&] {
                trained(of, {{"model", "dit"}});
              }),
              HasSubstr("model = \"dit\" (\"wan\", without the pipeline's weights = "));
}

// NaN differs from the folder's value, although it compares as neither equal nor unequal; the check of options, which
// comes next, refuses it.
TEST_F(PipelineOptions, ThatAreNoNumberAreNotTakenForTheFolders) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(of("generate", "wan_t2v", {{"guidance", nan}})["guidance"].get<double>()));
}

TEST_F(PipelineExperts, ThatNothingNamesAreRefused) {
  const fs::path of = folder();
  const auto said = [&](const fs::path& folder, const json& table) {
    return refusal([&] { trained(folder, table); });
  };
  EXPECT_THAT(said(of, json::object()), HasSubstr("two experts; say which of them to train: expert"));
  EXPECT_THAT(said(of, {{"weights", "x"}}), HasSubstr("say which"));
  EXPECT_THAT(said(of, {{"expert", "low"}, {"weights", (of / "transformer").string()}}),
              HasSubstr("are of the expert for high noise, and expert = \"low\"; leave one out"));
  EXPECT_THAT(said(oracle("wan_t2v"), {{"expert", "low"}}), HasSubstr("one transformer and no experts"));
}

TEST_F(PipelineOptions, ThatCannotBeSaidAreRefusedByName) {
  EXPECT_THAT(refusal([&] { with_pipeline("generate", "film", json::object(), scratch_ / "none"); }),
              HasSubstr("there is no such folder"));
  const auto of_file = [&](const fs::path& file) {
    std::ofstream(file) << "";
    return refusal([&] { with_pipeline("generate", "film", json::object(), file); });
  };
  EXPECT_THAT(
      of_file(scratch_ / "x.gguf"),
      AllOf(HasSubstr("x.gguf is GGUF"), HasSubstr("kinora generate --pipeline FOLDER --set weights=FILE")));
  EXPECT_THAT(
      of_file(scratch_ / "x.safetensors"),
      HasSubstr(
          "x.safetensors is a file; a pipeline is a folder with model_index.json: give that of the same"));
  EXPECT_THAT(of_file(scratch_ / "model_index.json"),
              HasSubstr("model_index.json: give " + scratch_.string()));
  fs::remove(scratch_ / "model_index.json");
  EXPECT_THAT(refusal([&] { with_pipeline("generate", "film", json::object(), oracle("wan_i2v")); }),
              HasSubstr("this pipeline begins with a picture; give image = \"FILE\" (kinora"));
  EXPECT_THAT(refusal([&] {
                of("generate", "wan_i2v", {{"video", "a.mp4"}});
              }),
              HasSubstr("this pipeline begins with a picture; give image"));
  EXPECT_THAT(refusal([&] { of("generate", "cosmos2_v2w"); }),
              HasSubstr("begins with a picture or a video; give image = \"FILE\" or video = \"FILE\""));
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
