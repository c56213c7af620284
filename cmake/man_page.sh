#!/bin/sh
# Writes the man page of attnctl, or of one of its commands, to stdout.
# Usage: man_page.sh BINARY VERSION PAGE DESCRIPTION [COMMAND]
set -eu
page=$3
title=$(echo "$page" | tr '[:lower:]' '[:upper:]')
# help2man names every page after the program. Rename the page of a command to attnctl-COMMAND.
help2man --no-info --locale=C.UTF-8 --source=attnctl --version-string="attnctl $2" --name="$4" "$1${5:+ $5}" |
  sed -e "s/^\.TH ATTNCTL /.TH $title /" -e "s/^attnctl \\\\- /$page \\\\- /"
