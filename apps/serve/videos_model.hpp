// A model of the server, for the parts of Videos.
#pragma once
#include <chrono>
#include <deque>
#include <set>

#include "apps/serve/videos.hpp"

namespace kinora::serve {

// Seconds since 1970.
inline int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Seconds.
inline double since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

struct Videos::Model {
  ModelSettings settings;
  nlohmann::json defaults;                         // of its videos; null: it is not loaded yet
  nlohmann::json loras = nlohmann::json::array();  // their names
  // Kinds of what its videos begin with, and of what it makes: "text", "image", "video".
  nlohmann::json inputs = nlohmann::json::array(), outputs = nlohmann::json::array();
  std::string broken;                           // why its process is gone, until the next one is loaded
  std::set<std::string> at_work;                // the videos, or the live session, that it makes
  std::chrono::steady_clock::time_point began;  // of them
  bool was_loaded = false;                      // once at least
  bool is_gone = false;                         // its process, which starts again
  bool is_silent = false;                       // its process, at the last look
  bool is_hung = false;                         // its process, which is being ended
  int64_t failures = 0;                         // processes in a row that ended before they were loaded
  std::chrono::steady_clock::time_point again;  // not before
  bool is_live = false;                         // makes live sessions
  bool makes_shots = true;                      // else its process has said that it does not
  std::deque<std::string> lives;                // live sessions that wait
  bool was_live = false;                        // what it made last
  int64_t weights = 0;                          // bytes
  int64_t processes = 0;                        // started
  int64_t asked = 0;                            // number of the last question
  std::map<int64_t, nlohmann::json> answers;
  std::unique_ptr<ModelProcess> process;  // last: its end writes to the others

  bool is_up() const { return !defaults.is_null() && !is_hung; }
};

}  // namespace kinora::serve
