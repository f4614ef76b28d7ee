// pipeline = "FOLDER" and noise = "FILE" in a generate job: latents equal those of diffusers' pipelines on
// the same folders and noise (tests/oracle/make_pipeline_noise_fixtures.py).
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/atomic_file.hpp"
#include "core/run/job.hpp"
#include "host/stages/stage_check.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/oracle_folders.hpp"

namespace kinora::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PipelineFolder : public test::OracleFolders {
 protected:
  static json object_of(const fs::path& file) {
    std::ifstream in(file);
    return json::parse(in);
  }

  // A folder assembled from published ones; later ones override earlier ones.
  fs::path assembled(const std::vector<std::string>& layers) {
    const fs::path folder = scratch_ / "published";
    fs::remove_all(folder);
    for (const auto& layer : layers)
      fs::copy(oracle(layer), folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    return folder;
  }
  RunFile read(const std::string& job, std::vector<std::string>* said = nullptr) {
    const auto text = fmt::format(
        "[run]\nout = '{}'\nseed = 3\n[[job]]\nname = 'film'\nkind = 'generate'\n{}", scratch_.string(), job);
    const auto document = or_throw(Document::parse(text, (scratch_ / "run.toml").string()));
    std::vector<Diagnostic> problems;
    RunFile run = read_run(document, test::runtime().registry(), with_weights, problems);
    for (const auto& p : problems)
      if (said)
        said->push_back(format(p));
      else
        ADD_FAILURE() << format(p);
    return run;
  }
  std::string job_of(const fs::path& folder, const std::string& case_name, const std::string& more,
                     const std::string& number = "000") {
    write_tensors(scratch_ / "noise.safetensors",
                  {{number, test::Oracle(oracle_file_, case_name).exact("noise")}});
    return fmt::format(
        "pipeline = '{}'\nnoise = '{}'\nprompts = ['red sea']\nsteps = 5\nframes = {}\nheight = 32\nwidth = "
        "{}\nformat = ['latents']\n{}",
        folder.string(), (scratch_ / "noise.safetensors").string(), frames_, width_, more);
  }
  at::Tensor made(const RunFile& run) {
    fs::remove_all(scratch_ / "film");
    JobContext context(test::runtime(), run, run.jobs.at(0), true);
    test::run_job(context);
    return read_tensors(scratch_ / "film" / "videos" / "000.latents.safetensors").at("latent")[0].clone();
  }
  // given: latent frames of a picture, on which diffusers' Cosmos leaves noise of sigma_min.
  void expect_equal(const fs::path& folder, const std::string& case_name, const std::string& more = "",
                    int64_t given = 0) {
    SCOPED_TRACE(case_name);
    const at::Tensor got = made(read(job_of(folder, case_name, more))),
                     want = test::Oracle(oracle_file_, case_name).exact("latent");
    ASSERT_EQ(got.sizes(), want.sizes());
    const int64_t all = want.size(1);
    const double apart =
        test::difference(got.narrow(1, given, all - given), want.narrow(1, given, all - given));
    EXPECT_LT(apart, 1e-5);
    if (given > 0) {
      EXPECT_LT((got - want).narrow(1, 0, given).abs().max().item<double>(), 0.03);
    }
    std::printf("          %s: latents differ by %.2g\n", case_name.c_str(), apart);
  }
  std::string refusal(const std::string& job) {
    std::vector<std::string> said;
    const auto run = read(job, &said);
    if (!said.empty()) return said.at(0);
    try {
      made(run);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  static std::string picture(const std::string& name) {
    return fmt::format("image = '{}'\n", oracle(name).string());
  }

  std::string oracle_file_ = "pipeline_noise.safetensors";
  int64_t frames_ = 9, width_ = 48;
};

TEST_F(PipelineFolder, OfWanTextToVideoMakesTheLatentsOfDiffusers) {
  const auto folder = assembled({"wan_t2v"});
  expect_equal(folder, "t2v");
  expect_equal(folder, "t2v_negative", "negative = 'blurry blue'\nguidance = 3.0\n");
  expect_equal(folder, "t2v_plain", "guidance = 1.0\n");
  expect_equal(folder, "t2v_plain", "guidance = 0.5\n");
}

TEST_F(PipelineFolder, OfWanImageToVideoMakesTheLatentsOfDiffusers) {
  const auto folder = assembled({"wan_i2v"});
  expect_equal(folder, "i2v", picture("wan_i2v/first.png"));
  expect_equal(folder, "i2v_plain", picture("wan_i2v/first.png") + "guidance = 1\n");
}

TEST_F(PipelineFolder, OfWanFirstAndLastFrameMakesTheLatentsOfDiffusers) {
  const auto folder = assembled({"wan_i2v", "wan_flf2v"});
  const std::string both = picture("wan_i2v/first.png") +
                           fmt::format("last_image = '{}'\n", oracle("wan_flf2v/last.png").string());
  expect_equal(folder, "flf2v", both);
}

TEST_F(PipelineFolder, OfWansTwoExpertsMakesTheLatentsOfDiffusers) {
  const auto folder = assembled({"wan_t2v", "wan_a14b_t2v"});
  expect_equal(folder, "a14b_t2v");
  expect_equal(folder, "a14b_t2v_two", "guidance = 4.0\nguidance_2 = 3.0\nresident_experts = 1\n");
  expect_equal(folder, "a14b_t2v_plain", "guidance = 1.0\nguidance_2 = 3.0\n");
  expect_equal(assembled({"wan_t2v", "wan_a14b_i2v"}), "a14b_i2v", picture("wan_i2v/first.png"));
}

// TI2V's folder is a text pipeline's that reads a timestep per frame.
TEST_F(PipelineFolder, OfWanTextOrImageToVideoMakesTheLatentsOfDiffusers) {
  const auto folder = assembled({"wan_t2v"});
  EXPECT_THAT(refusal(job_of(folder, "ti2v", picture("wan_i2v/first.png"))),
              HasSubstr(folder.string() + ": this pipeline begins with a text alone; leave `image` out, or"));
  json index = object_of(folder / "model_index.json");
  index["expand_timesteps"] = true;
  std::ofstream(folder / "model_index.json") << index.dump();
  expect_equal(folder, "ti2v", picture("wan_i2v/first.png"));
  expect_equal(folder, "t2v");
}

// With the autoencoder form of Wan 2.2.
TEST_F(PipelineFolder, OfWan22TextOrImageToVideoMakesTheLatentsOfDiffusers) {
  const auto folder = assembled({"wan_t2v", "wan_ti2v"});
  json index = object_of(folder / "model_index.json");
  index["expand_timesteps"] = true;
  std::ofstream(folder / "model_index.json") << index.dump();
  width_ = 32;
  expect_equal(folder, "ti2v_22", picture("cosmos2_v2w/first.png"));
}

TEST_F(PipelineFolder, OfAnotherSchedulerMakesTheLatentsOfDiffusers) {
  const auto folder = assembled({"wan_t2v"});
  std::ofstream(folder / "scheduler" / "scheduler_config.json")
      << json{{"_class_name", "FlowMatchEulerDiscreteScheduler"}, {"shift", 5.0}}.dump();
  expect_equal(folder, "t2v_euler");
}

TEST_F(PipelineFolder, OfCosmosPredict1MakesTheLatentsOfDiffusers) {
  width_ = 32;
  const std::string guided = "negative = 'blurry blue'\nguidance = 3.0\n", plain = "guidance = 1.0\n";
  const auto text = assembled({"cosmos_t2w"});
  expect_equal(text, "t2w", guided);
  expect_equal(text, "t2w_plain", plain);
  const auto folder = assembled({"cosmos_t2w", "cosmos_v2w"});
  json index = object_of(folder / "model_index.json");
  index["_class_name"] = "CosmosVideoToWorldPipeline";
  std::ofstream(folder / "model_index.json") << index.dump();
  expect_equal(folder, "v2w", picture("cosmos2_v2w/first.png") + guided, 1);
  expect_equal(folder, "v2w_plain", picture("cosmos2_v2w/first.png") + plain, 1);
}

// diffusers scales the time positions of Predict 2 by 24 / fps, which NVIDIA's configuration leaves out.
TEST_F(PipelineFolder, OfCosmosPredict2MakesTheLatentsOfDiffusers) {
  width_ = 32;
  const auto folder = assembled({"cosmos2_v2w"});
  const auto given = picture("cosmos2_v2w/first.png") + "model = { use = 'cosmos', base_fps = 24 }\n";
  expect_equal(folder, "cosmos2_v2w", given + "negative = 'blurry blue'\nguidance = 3.0\n", 1);
  expect_equal(folder, "cosmos2_v2w_plain", given + "guidance = 1.0\n", 1);
  frames_ = 1;
  expect_equal(assembled({"cosmos2_t2i"}), "cosmos2_t2i", "negative = ''\nguidance = 3.0\n");
  expect_equal(assembled({"cosmos2_t2i"}), "cosmos2_t2i_plain", "guidance = 1.0\n");
}

// tests/oracle/make_continued_fixtures.py: all frames of a short video, two latent frames from the end of a
// longer one; of Predict 2 at fps = 24, where diffusers' time positions are NVIDIA's.
TEST_F(PipelineFolder, OfCosmosContinuesAVideoFromItsEnd) {
  width_ = 32;
  oracle_file_ = "continued/continued.safetensors";
  const auto video = [](const char* name) {
    return fmt::format("video = '{}'\nnegative = 'blurry blue'\nguidance = 3.0\n",
                       (oracle("continued") / name).string());
  };
  const auto first = assembled({"cosmos_t2w", "cosmos_v2w"});
  json index = object_of(first / "model_index.json");
  index["_class_name"] = "CosmosVideoToWorldPipeline";
  std::ofstream(first / "model_index.json") << index.dump();
  expect_equal(first, "predict1_long", video("long.mp4"), 2);
  const auto second = assembled({"cosmos2_v2w"});
  frames_ = 13;
  expect_equal(second, "predict2_long", video("long.mp4"), 2);
  expect_equal(second, "predict2_short", video("short.mp4"), 3);
  expect_equal(second, "predict2_long", video("long.mp4") + "condition_frames = 5\n", 2);
  const at::Tensor end = made(read(job_of(second, "predict2_long", video("long.mp4")))),
                   start = made(read(
                       job_of(second, "predict2_long", video("long.mp4") + "condition_from = 'start'\n")));
  EXPECT_GT(test::difference(start.narrow(1, 0, 2), end.narrow(1, 0, 2)), 1e-3);
}

// As written by earlier diffusers versions: fewer keys, the tokenizer's old class, weights in shards.
TEST_F(PipelineFolder, OfAnOlderWriterInShardsMakesTheSame) {
  const auto folder = assembled({"wan_t2v"});
  const auto rewritten = [&](const char* file, const std::vector<const char*>& without,
                             const json& with = json::object()) {
    json object = object_of(folder / file);
    for (const char* key : without) object.erase(key);
    object.update(with);
    std::ofstream(folder / file) << object.dump();
  };
  rewritten("model_index.json", {"boundary_ratio", "expand_timesteps", "transformer_2"},
            {{"_diffusers_version", "0.33.0.dev0"}, {"tokenizer", {"transformers", "T5TokenizerFast"}}});
  rewritten("scheduler/scheduler_config.json",
            {"shift_terminal", "sigma_max", "sigma_min", "time_shift_type", "use_dynamic_shifting",
             "use_exponential_sigmas", "use_beta_sigmas", "rescale_betas_zero_snr"});
  rewritten("vae/config.json", {"is_residual", "patch_size", "scale_factor_spatial", "scale_factor_temporal",
                                "decoder_base_dim", "in_channels", "out_channels"});
  for (const char* part : {"transformer/diffusion_pytorch_model", "text_encoder/model"}) {
    const fs::path file = folder / (std::string(part) + ".safetensors");
    const auto all = or_throw(Safetensors::open(file));
    const auto index = or_throw(write_safetensors_sharded(file, all.tensors(), all.metadata(), 2000));
    ASSERT_EQ(index.extension(), ".json");
    fs::remove(file);
  }
  expect_equal(folder, "t2v");
}

// An adapter that has not learned anything equals the published model; the encode job's latents and texts are
// in the form that the model expects.
TEST_F(PipelineFolder, IsWhatFineTuningBeginsWith) {
  const test::ScratchRun shard;
  write_shard(shard);
  const auto folder = assembled({"wan_t2v"});
  write_tensors(scratch_ / "noise.safetensors",
                {{"000", test::Oracle("pipeline_noise.safetensors", "t2v").exact("noise")}});
  const std::string text = fmt::format(
      "[run]\nout = '{0}'\nseed = 3\n"
      "[[job]]\nname = 'latents'\nkind = 'encode'\ninput = '{1}'\npipeline = '{2}'\nframes = 9\nheight = "
      "32\nwidth = 48\n"
      "[[job]]\nname = 'dit'\nkind = 'train'\ninput = 'latents'\npipeline = '{2}'\nlora = 'rank=2 "
      "targets=to_q,to_v'\n"
      "steps = 1\nbatch = 2\nlearning_rate = 1e-30\nwarmup = 0\ntensorboard = false\n"
      "[[job]]\nname = 'film'\nkind = 'generate'\ninput = 'dit'\npipeline = '{2}'\nnoise = "
      "'{0}/noise.safetensors'\n"
      "prompts = ['red sea']\nsteps = 5\nframes = 9\nheight = 32\nwidth = 48\nformat = ['latents']\n",
      scratch_.string(), shard.of("shards").string(), folder.string());
  const auto document = or_throw(Document::parse(text, (scratch_ / "run.toml").string()));
  std::vector<Diagnostic> problems;
  const RunFile run = read_run(document, test::runtime().registry(), with_weights, problems);
  for (const auto& p : problems) ADD_FAILURE() << format(p);
  for (const auto& job : run.jobs) {
    JobContext context(test::runtime(), run, job, true);
    test::run_job(context);
  }
  const auto facts = LatentData(scratch_ / "latents").facts();
  EXPECT_EQ(facts.scale.mean, (std::vector<double>{0, 0}));
  EXPECT_EQ(facts.scale.std, (std::vector<double>{1, 1}));
  const at::Tensor got =
                       read_tensors(scratch_ / "film" / "videos" / "000.latents.safetensors").at("latent")[0],
                   want = test::Oracle("pipeline_noise.safetensors", "t2v").exact("latent");
  EXPECT_LT(test::difference(got, want), 1e-5);
}

TEST_F(PipelineFolder, WhoseNoiseDoesNotFitIsRefusedByName) {
  const auto folder = assembled({"wan_t2v"});
  EXPECT_THAT(
      refusal(job_of(folder, "t2v", "", "001")),
      HasSubstr(
          "tensor '000', the noise of video 0, is missing; the file has 1 tensors, the first is '001'"));
  frames_ = 13;
  EXPECT_THAT(refusal(job_of(folder, "t2v", "")),
              HasSubstr("noise '000' is [2, 3, 4, 6], but the latent is [2, 4, 4, 6]"));
  frames_ = 9;
  const std::string job = job_of(folder, "t2v", "");
  at::Tensor noise = test::Oracle("pipeline_noise.safetensors", "t2v").exact("noise").clone();
  noise[0][0][0][0] = std::numeric_limits<double>::quiet_NaN();
  write_tensors(scratch_ / "noise.safetensors", {{"000", noise}});
  EXPECT_THAT(refusal(job), HasSubstr("values that are not finite"));
}

// A network whose weights are not finite would make a black video.
TEST_F(PipelineFolder, WhoseNetworkIsNotFiniteIsRefusedByName) {
  const auto said = [&](const char* file, const char* tensor) {
    const auto folder = assembled({"wan_t2v"});
    auto weights = read_tensors(folder / file);
    for (auto& [name, t] : weights) t = t.clone();
    weights.at(tensor).fill_(std::numeric_limits<double>::quiet_NaN());
    write_tensors(folder / file, weights);
    return refusal(job_of(folder, "t2v", ""));
  };
  EXPECT_THAT(
      said("transformer/diffusion_pytorch_model.safetensors", "patch_embedding.weight"),
      HasSubstr("model/wan: the latent of video 000 in denoiser call 1 has values that are not finite"));
  EXPECT_THAT(
      said("text_encoder/model.safetensors", "encoder.final_layer_norm.weight"),
      HasSubstr("model/umt5: the embedding of the prompt of video 000 has values that are not finite"));
  EXPECT_THAT(said("vae/diffusion_pytorch_model.safetensors", "decoder.conv_in.bias"),
              HasSubstr("the tokenizer decodes pixels that are not finite"));
}

TEST_F(PipelineFolder, ForASizeThatDoesNotDivideNamesTheNearest) {
  const auto folder = assembled({"wan_t2v"});
  const auto problems = [&](const std::string& size) {
    const auto run = read("pipeline = '" + folder.string() + "'\nprompts = ['x']\nframes = 5\n" + size);
    std::string all;
    for (const auto& p : check_jobs(test::runtime(), run, 0)) all += format(p) + "\n";
    return all;
  };
  EXPECT_EQ(problems("height = 32\nwidth = 48\n"), "");
  EXPECT_THAT(
      problems("height = 32\nwidth = 40\n"),
      HasSubstr(":11:9: job 'film': width = 40 must be a multiple of 16 for tokenizer/wan and patches of "
                "2 latents of model/wan; 32 or 48 would do"));
  EXPECT_THAT(problems("height = 30\nwidth = 48\n"), HasSubstr(":10:10: job 'film': height = 30 must be"));
}

// The model's channels say that it begins with a picture; the folder is not its `pipeline` here.
TEST_F(PipelineFolder, OfImageToVideoTakesNoVideo) {
  const auto folder = assembled({"wan_i2v"});
  const auto run = read(fmt::format(
      "prompts = ['x']\nvideo = '{1}/bbb_A.mp4'\nmodel = 'wan'\nweights = '{0}/transformer'\nloss = "
      "'flow'\nsampler = 'unipc'\ntokenizer = 'wan'\ntokenizer_weights = '{0}/vae'\nframes = 9\nheight = "
      "32\nwidth = 48\n",
      folder.string(), KINORA_TEST_DATA));
  std::string all;
  for (const auto& p : check_jobs(test::runtime(), run, 0)) all += format(p) + "\n";
  EXPECT_THAT(
      all, HasSubstr("model/wan makes videos from a picture, not from a video; set image instead of video"));
}

// The check says so, before anything is made; a video may still be changed.
TEST_F(PipelineFolder, OfTextsAloneTakesNoBeginning) {
  const auto problems = [&](const std::string& more) {
    const auto run = read(fmt::format("pipeline = '{}'\nframes = 9\nheight = 32\nwidth = 48\n{}",
                                      (scratch_ / "published").string(), more));
    std::string all;
    for (const auto& p : check_jobs(test::runtime(), run, 0)) all += format(p) + "\n";
    return all;
  };
  const std::string prompt = "prompts = ['x']\n",
                    video = fmt::format("video = '{}'\n", (oracle("continued") / "long.mp4").string());
  for (const char* name : {"wan_t2v", "cosmos_t2w", "cosmos2_t2i"}) {
    const auto folder = assembled({name});
    EXPECT_THAT(
        problems(prompt + video),
        AllOf(HasSubstr(folder.string() + ": this pipeline begins with a text alone; leave `video` out, set "
                                          "strength below 1 to change it, or give the folder of a pipeline"),
              HasSubstr("run.toml:12:9: job 'film'")));
    EXPECT_THAT(problems(prompt + video + "strength = 0.5\n"), Not(HasSubstr("alone")));
    EXPECT_THAT(problems(prompt + picture("cosmos2_v2w/first.png")),
                HasSubstr("a text alone; leave `image` out, or"));
  }
  assembled({"wan_t2v"});
  EXPECT_THAT(problems(prompt + video + "teacher_forcing = true\nchunk = 1\n"), Not(HasSubstr("alone")));
  std::ofstream(scratch_ / "lines.jsonl")
      << json{{"prompt", "x"}, {"video", (oracle("continued") / "long.mp4").string()}}.dump();
  EXPECT_THAT(problems(fmt::format("prompts_file = '{}'\n", (scratch_ / "lines.jsonl").string())),
              HasSubstr("a text alone; leave `video` out"));
}

TEST_F(PipelineFolder, WithoutOneStepsSayWhereTheyBelong) {
  EXPECT_THAT(refusal("prompts = ['x']\nsteps = 4\n"), HasSubstr("steps is for jobs with pipeline"));
}

}  // namespace
}  // namespace kinora::core
