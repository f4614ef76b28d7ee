// What every stage of this plugin says about its server in the TOML.
#pragma once
#include <cstdint>
#include <string>

#include "kinora/options.hpp"

namespace kinora::endpoint {

struct ServerOptions {
  std::string base_url = "http://127.0.0.1:8000/v1";
  std::string model = "Qwen/Qwen2.5-VL-7B-Instruct";
  std::string api_key_env, ca_file, extra;
  int64_t concurrency = 8, requests_per_minute = 0, tokens_per_minute = 0;
  int64_t retries = 3;
  double backoff = 1, longest_wait = 120, timeout = 180, connect_timeout = 10;
  int64_t answer_size = 1 << 20;
  double price_prompt = 0, price_completion = 0;
  std::string on_error = "fail";
};

template <class Options>
void describe_server(Describe<Options>& d) {
  d.option("base_url", &Options::base_url)
      .help("of an OpenAI-compatible server, with its version: https://api.openai.com/v1");
  d.option("model", &Options::model).required().help("as the server calls it");
  d.option("api_key_env", &Options::api_key_env)
      .help("environment variable that holds the key, as OPENAI_API_KEY; empty: none is sent");
  d.option("ca_file", &Options::ca_file).path().help("certificates to trust; empty: the system's");
  d.option("extra", &Options::extra)
      .help("a JSON object whose members are added to each request, as {\"top_p\": 0.9}");
  d.option("concurrency", &Options::concurrency)
      .range(1, 1024)
      .help("requests at once, of all stages with this server, model and limits");
  d.option("requests_per_minute", &Options::requests_per_minute)
      .range(0, 1e6)
      .help("evenly spaced; 0: no bound");
  d.option("tokens_per_minute", &Options::tokens_per_minute)
      .range(0, 1e9)
      .help("of prompt and completion together; 0: no bound");
  d.option("retries", &Options::retries)
      .range(0, 100)
      .help("further attempts after a lost connection, a timeout, 408, 409, 425, 429 or 5xx");
  d.option("backoff", &Options::backoff)
      .range(0, 3600)
      .unit("s")
      .help("wait before the first further attempt, then twice as long each; up to a half less by chance");
  d.option("longest_wait", &Options::longest_wait)
      .range(0, 86400)
      .unit("s")
      .help("of one backoff; a server that asks to wait longer is an error");
  d.option("timeout", &Options::timeout)
      .range(0.01, 86400)
      .unit("s")
      .help("of one request, its answer included");
  d.option("connect_timeout", &Options::connect_timeout)
      .range(0.01, 3600)
      .unit("s")
      .help("until the connection stands");
  d.option("answer_size", &Options::answer_size).bytes().at_least(1024).help("a larger answer is an error");
  d.option("price_prompt", &Options::price_prompt)
      .at_least(0)
      .help("of a million prompt tokens, for the sums of cost");
  d.option("price_completion", &Options::price_completion).at_least(0).help("of a million completion tokens");
  d.option("on_error", &Options::on_error)
      .choices({"fail", "keep"})
      .help("what becomes of a sample without a usable answer; keep: it goes on, its facts say why");
}

struct ChatOptions : ServerOptions {
  std::string system;
  int64_t max_tokens = 1024;
  std::string max_tokens_name = "max_tokens";
  double temperature = 0;
  int64_t seed = -1;
  std::string cut = "fail";
};

template <class Options>
void describe_chat(Describe<Options>& d) {
  d.option("system", &Options::system).help("system prompt; empty: none");
  d.option("max_tokens", &Options::max_tokens).range(1, 1 << 20).help("of an answer");
  d.option("max_tokens_name", &Options::max_tokens_name)
      .choices({"max_tokens", "max_completion_tokens"})
      .help("what the server calls that; OpenAI's newer models take only the second");
  d.option("temperature", &Options::temperature).range(-1, 2).help("-1: the server's own");
  d.option("seed", &Options::seed).range(-1, 2147483647).help("of the server's sampling; -1: none is sent");
  d.option("cut", &Options::cut)
      .choices({"fail", "keep"})
      .help("an answer that ended at max_tokens is an error, or taken as it is");
  describe_server(d);
}

struct PictureOptions {
  int64_t quality = 85, max_side = 512, max_frames = 32;
  std::string detail = "auto";
};

template <class Options>
void describe_pictures(Describe<Options>& d) {
  d.option("quality", &Options::quality).range(1, 100).help("of the JPEG pictures that are sent");
  d.option("max_side", &Options::max_side)
      .range(16, 16384)
      .unit("pixels")
      .help("larger frames are scaled down");
  d.option("max_frames", &Options::max_frames)
      .range(1, 4096)
      .help("pictures in one request; of more, so many evenly spread ones");
  d.option("detail", &Options::detail)
      .choices({"auto", "low", "high"})
      .help("how closely the server looks at a picture; auto sends nothing");
}

}  // namespace kinora::endpoint
