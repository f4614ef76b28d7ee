// The parts of the page, in its order. A section about jobs that the run does not have writes nothing.
#pragma once
#include "plugins/jobs/report/parts.hpp"

namespace kinora::core::report {

void write_films(Page&);      // the contact sheet
void write_outcomes(Page&);   // where every input and clip ended, and that the sums add up
void write_tokenizer(Page&);  // reconstructions beside originals
void write_training(Page&);   // curves
void write_videos(Page&);     // what was generated
void write_times(Page&);      // seconds a job
void write_settings(Page&);   // the run file and the versions

// The inputs, the rules that filtered with the scores, the failures with the errors.
void write_outcome_tables(Html&, const Curation&);

// The score of a film's frames over its shots.
void write_timeline(Html&, const Film&, std::optional<double> threshold);
// How a shot ended: "kept", "filtered", "failed" or "none".
const char* end_of(const Shot&);

}  // namespace kinora::core::report
