// Serves videos over HTTP: OpenAI's Videos API, with what a video shows while it grows.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "apps/serve/settings.hpp"

namespace kinora::serve {

struct ServeCall {
  Settings settings;
  std::filesystem::path program;                      // kinora itself, which is started for each model
  std::function<void(const std::string& url)> ready;  // called once, when requests are answered
  std::function<bool()> stopped;                      // polled; true stops the server
};

// Until stopped() is true. Throws Error if the port or the folder cannot be had, or a model cannot be loaded.
void serve(const ServeCall& call);

}  // namespace kinora::serve
