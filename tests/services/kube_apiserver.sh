#!/bin/sh
# Builds Kubernetes' own API server from its Go module: eight minutes of a core, 3 GB of disk.
#   sh tests/services/kube_apiserver.sh FOLDER        makes FOLDER/kube-apiserver
# The module replaces its parts by folders that it does not contain; each is a module of its own.
set -eu
version=v1.34.2
mkdir -p "$1"
cd "$1"
export GOWORK=off GOFLAGS='-mod=mod -modcacherw'
source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
rm -rf source
cp -r "$source" source
chmod -R u+w source
cd source
rm -rf go.work vendor
for module in $(sed -n 's/^[[:space:]]*\(k8s\.io\/[^ ]*\) => \.\/staging.*/\1/p' go.mod); do
  go mod edit -replace "$module=$module@v0${version#v1}"
done
go build -o ../kube-apiserver ./cmd/kube-apiserver
