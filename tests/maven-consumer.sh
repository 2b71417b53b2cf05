#!/usr/bin/env bash
# Signs the bundle for Maven Central with a key of its own, unpacks it as a repository, and has Maven compile a project
# that depends on it:  tests/maven-consumer.sh PACKAGES VERSION JDK MODEL
set -euo pipefail
packages=$(realpath "$1") version=$2 jdk=$3 model=$(realpath "$4")
cd "$(dirname "$0")/.."
root=$PWD
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
fail() { echo "FAILED: $1"; exit 1; }
mkdir "$temporary/packages"
cp "$packages"/realizar-"$version"{,-sources,-javadoc}.{jar,pom}{,.md5,.sha1} "$temporary/packages/" 2>/dev/null || true
key=
if command -v gpg >/dev/null; then
    export GNUPGHOME=$temporary/keys
    mkdir -m 700 "$GNUPGHOME"
    key=test@localhost
    gpg --batch --quiet --passphrase "" --quick-generate-key $key ed25519 sign never 2>/dev/null
fi
scripts/dist-central "$temporary/packages" $key >/dev/null
cd "$temporary"
python3 -m zipfile -e "packages/realizar-$version-central.zip" repository
place=repository/dev/realizar/realizar/$version
for part in .pom .jar -sources.jar -javadoc.jar; do
    [ "$(cat "$place/realizar-$version$part.sha1")" = "$(sha1sum <"$place/realizar-$version$part" | cut -d ' ' -f 1)" ] || fail "the checksum of $part"
    [ -z "$key" ] || gpg --batch --quiet --verify "$place/realizar-$version$part"{.asc,} 2>/dev/null || fail "the signature of $part"
done
echo "ok: the bundle for Maven Central${key:+, signed}"

command -v mvn >/dev/null || { echo "SKIPPED: a project of Maven, because there is no mvn"; exit 0; }
mkdir -p project/src/main/java
cp "$root/docs/snippets/start/Chat.java" project/src/main/java/
cat >project/pom.xml <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>test</groupId><artifactId>test</artifactId><version>1</version>
  <properties><maven.compiler.release>22</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <repositories><repository><id>bundle</id><url>file://$temporary/repository</url><releases><checksumPolicy>fail</checksumPolicy></releases></repository></repositories>
  <dependencies><dependency><groupId>dev.realizar</groupId><artifactId>realizar</artifactId><version>$version</version></dependency></dependencies>
  <build><plugins>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.14.0</version></plugin>
    <plugin><artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version></plugin>
  </plugins></build>
</project>
END
# With the plugins that are here, and without a package of an earlier run.
cp -al "${HOME}/.m2/repository" local 2>/dev/null || true
rm -rf local/dev/realizar
if ! JAVA_HOME=$jdk mvn -q -B -f project/pom.xml -Dmaven.repo.local="$PWD/local" compile dependency:build-classpath -Dmdep.outputFile="$PWD/path" >log 2>&1; then
    grep -q "Could not transfer\|Unknown host\|offline" log && { echo "SKIPPED: a project of Maven, which cannot fetch its plugins"; exit 0; }
    cat log
    fail "a project of Maven"
fi
said=$(echo "Once upon a time" | "$jdk/bin/java" --enable-native-access=ALL-UNNAMED -cp "project/target/classes:$(cat path)" Chat "$model") || fail "the project of Maven"
[[ $said == *"there was a little girl named Lily."* ]] || fail "the project of Maven says: $said"
echo "ok: a project of Maven compiles against the bundle and runs"
