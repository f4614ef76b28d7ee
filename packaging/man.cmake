# Writes the man page of the program from its help. usage: cmake -DPROGRAM=kinora -DOUT=kinora.1 -P man.cmake
execute_process(COMMAND "${PROGRAM}" --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${PROGRAM}" --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "^kinora [^\n]+" version "${version}")
# without this machine's folder
string(REGEX REPLACE "kinora run [^ ]*quickstart.toml" "kinora run quickstart.toml" help "${help}")
string(REGEX REPLACE "\n  bench [^\n]*" "" help "${help}")  # an installation has no benchmarks
string(FIND "${help}" "usage:" start)
string(SUBSTRING "${help}" ${start} -1 help)
string(REPLACE "\\" "\\e" help "${help}")  # what roff would read as its own
string(REPLACE "-" "\\-" help "${help}")
string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" help "${help}")
file(WRITE "${OUT}" ".TH KINORA 1 \"\" \"${version}\"
.SH NAME
kinora \\- from raw video to a video foundation model, and back to video
.SH SYNOPSIS
.B kinora
[flags] COMMAND ...
.SH DESCRIPTION
.nf
${help}.fi
.SH SEE ALSO
The pages in share/doc/kinora/docs of the installation; README.md there lists them.
")
